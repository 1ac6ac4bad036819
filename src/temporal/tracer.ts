/**
 * OpenTelemetry's SDK as this process uses it. It is loaded where traces are on alone, and reads its standard variables
 * itself. All that it registers globally is who hears of failed exports. An export never holds up what it tells of:
 * spans wait in a bounded queue.
 */
import {
  ROOT_CONTEXT,
  createTraceState,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Context,
  type Link,
  type Span,
  type SpanContext,
  type SpanOptions,
} from '@opentelemetry/api';
import { setGlobalErrorHandler } from '@opentelemetry/core';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor, type SpanExporter } from '@opentelemetry/sdk-trace-base';
import type { TraceContext } from '../contract/trace-context.js';

/** Who traces, and how it sends. */
export interface TracerSettings {
  protocol: 'http/protobuf' | 'http/json';
  /** Where OTEL_SERVICE_NAME says nothing else. */
  serviceName: string;
  version: string;
  /** For one export with its repetitions; else the variables' own. */
  timeoutMs?: number;
  /** Told of each export that failed; the spans are lost. */
  onProblem: (reason: string) => void;
}

/** A span with an id that is known before. Without `traceId`, it is its parent's. */
export interface KnownSpan extends Pick<SpanOptions, 'attributes' | 'kind' | 'startTime'> {
  name: string;
  spanId?: string;
  traceId?: string;
  parent?: TraceContext | SpanContext | null;
  links?: readonly (string | undefined)[];
}

/** The exporter of this process. */
export class Tracer {
  readonly #provider: BasicTracerProvider;
  #ids: { spanId?: string | undefined; traceId?: string | undefined } = {};

  private constructor(exporter: SpanExporter, { serviceName, version }: TracerSettings) {
    this.#provider = new BasicTracerProvider({
      resource: defaultResource()
        .merge(resourceFromAttributes({ 'service.name': serviceName, 'service.version': version }))
        .merge(detectResources({ detectors: [envDetector] })),
      spanProcessors: [new BatchSpanProcessor(exporter)],
      idGenerator: {
        generateTraceId: () => this.#ids.traceId ?? randomHex(32),
        generateSpanId: () => this.#ids.spanId ?? randomHex(16),
      },
    });
  }

  static async open(settings: TracerSettings): Promise<Tracer> {
    setGlobalErrorHandler((error) => settings.onProblem(typeof error === 'string' ? error : (error.message ?? '')));
    const { OTLPTraceExporter } =
      settings.protocol === 'http/json'
        ? await import('@opentelemetry/exporter-trace-otlp-http')
        : await import('@opentelemetry/exporter-trace-otlp-proto');
    const { timeoutMs: timeoutMillis } = settings;
    return new Tracer(new OTLPTraceExporter(timeoutMillis === undefined ? {} : { timeoutMillis }), settings);
  }

  /** Begins a span; the sampler decides whether its end sends it. */
  begin({ name, spanId, traceId, parent, links = [], ...options }: KnownSpan): Span {
    this.#ids = { spanId, traceId };
    const linked = links.flatMap((link): Link[] => (link === undefined ? [] : [{ context: spanContext(link) }]));
    const span = this.#provider
      .getTracer('agent-jobs')
      .startSpan(name, { ...options, links: linked }, contextOf(parent ?? null));
    this.#ids = {};
    return span;
  }

  /** Sends what waits, within the limit; whatever is left then is lost. */
  async end(limitMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<void>((resolve) => (timer = setTimeout(resolve, limitMs)));
    // What failed was told as a problem.
    await Promise.race([this.#provider.shutdown().catch(() => {}), limit]);
    clearTimeout(timer);
  }
}

/** Marks a span as one that did not end well. */
export function fail(span: Span, reason: string): void {
  span.setStatus({ code: SpanStatusCode.ERROR, message: reason });
}

/** What a span hands on to those that it causes. */
export function traceContextOf(span: Span): TraceContext {
  const { traceId, spanId, traceFlags, traceState } = span.spanContext();
  const traceparent = `00-${traceId}-${spanId}-0${(traceFlags & TraceFlags.SAMPLED).toString(16)}`;
  const tracestate = traceState?.serialize();
  return tracestate ? { traceparent, tracestate } : { traceparent };
}

function contextOf(parent: TraceContext | SpanContext | null): Context {
  if (parent === null) return ROOT_CONTEXT;
  const context = 'traceparent' in parent ? spanContext(parent.traceparent, parent.tracestate) : parent;
  return trace.setSpanContext(ROOT_CONTEXT, context);
}

/** Of a `traceparent` that was checked. */
function spanContext(traceparent: string, tracestate?: string): SpanContext {
  const [, traceId = '', spanId = '', flags = '0'] = traceparent.split('-');
  const state = tracestate === undefined ? {} : { traceState: createTraceState(tracestate) };
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & TraceFlags.SAMPLED, isRemote: true, ...state };
}

function randomHex(digits: number): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(digits / 2))).toString('hex');
}
