/**
 * OpenTelemetry's SDK as this process uses it. It is loaded where traces are on alone, and reads its standard variables
 * itself. All that it registers globally is who hears of failed exports. An export never holds up what it tells of:
 * spans wait in a bounded queue.
 */
import {
  type Context,
  defaultTextMapGetter,
  defaultTextMapSetter,
  type Link,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  type SpanOptions,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { setGlobalErrorHandler, W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor, RandomIdGenerator } from '@opentelemetry/sdk-trace-base';
import { type WorkflowClientInterceptor, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import { TRACE_HEADER, type TraceContext } from '../contract/trace-context.js';

/** Who traces, and how it sends. */
export interface TracerSettings {
  /** Where OTEL_SERVICE_NAME says nothing else. */
  serviceName: string;
  version: string;
  /** For one export with its repetitions; else the variables' own. */
  timeoutMs?: number;
  /** Told of each export that failed; the spans are lost. */
  onProblem: (reason: string) => void;
}

const W3C = new W3CTraceContextPropagator();

/** A span to begin. */
export interface NewSpan extends Pick<SpanOptions, 'attributes' | 'startTime'> {
  name: string;
  /** Where it is known before; the trace's id counts where the span has no parent. */
  ids?: { spanId: string; traceId: string };
  parent?: TraceContext | SpanContext | null;
  links?: readonly (string | undefined)[];
}

/** The exporter of this process. */
export class Tracer {
  readonly #provider: BasicTracerProvider;
  #ids: NewSpan['ids'];

  constructor({ serviceName, version, timeoutMs, onProblem }: TracerSettings) {
    setGlobalErrorHandler((error) => onProblem(typeof error === 'string' ? error : (error.message ?? '')));
    const exporter = new OTLPTraceExporter(timeoutMs === undefined ? {} : { timeoutMillis: timeoutMs });
    const random = new RandomIdGenerator();
    this.#provider = new BasicTracerProvider({
      resource: defaultResource()
        .merge(resourceFromAttributes({ 'service.name': serviceName, 'service.version': version }))
        .merge(detectResources({ detectors: [envDetector] })),
      spanProcessors: [new BatchSpanProcessor(exporter)],
      idGenerator: {
        generateTraceId: () => this.#ids?.traceId ?? random.generateTraceId(),
        generateSpanId: () => this.#ids?.spanId ?? random.generateSpanId(),
      },
    });
  }

  /** Begins a span; the sampler decides whether its end sends it. */
  begin({ name, ids, parent, links = [], ...options }: NewSpan): Span {
    this.#ids = ids;
    const linked = links.flatMap((traceparent) => (traceparent === undefined ? [] : linkTo(traceparent)));
    const span = this.#provider
      .getTracer('agent-jobs')
      .startSpan(name, { ...options, links: linked }, contextOf(parent ?? null));
    this.#ids = undefined;
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
function traceContextOf(span: Span): TraceContext {
  const carrier = { traceparent: '' };
  W3C.inject(trace.setSpan(ROOT_CONTEXT, span), carrier, defaultTextMapSetter);
  return carrier;
}

function contextOf(parent: TraceContext | SpanContext | null): Context {
  if (parent === null) return ROOT_CONTEXT;
  if ('traceparent' in parent) return W3C.extract(ROOT_CONTEXT, parent, defaultTextMapGetter);
  return trace.setSpanContext(ROOT_CONTEXT, parent);
}

function linkTo(traceparent: string): Link[] {
  const context = trace.getSpanContext(contextOf({ traceparent }));
  return context ? [{ context }] : [];
}

// Spans of a caller's calls, and the header that hands each on, as Temporal's OpenTelemetry interceptors make them.

/** Traces what changes a workflow, each as a child of `parent`, or as a trace of its own. */
export function traceCalls(tracer: Tracer, parent: TraceContext | null): WorkflowClientInterceptor {
  const traced = async <T>(name: string, workflowId: string, call: (handOn: HandOn) => Promise<T>): Promise<T> => {
    const span = tracer.begin({ name, parent, attributes: { temporalWorkflowID: workflowId } });
    const payload = defaultPayloadConverter.toPayload(traceContextOf(span));
    try {
      return await call((headers) => ({ ...headers, [TRACE_HEADER]: payload }));
    } catch (error) {
      // Joining a job is no failure.
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) fail(span, (error as Error).name);
      throw error;
    } finally {
      span.end();
    }
  };
  return {
    startWithDetails: (input, next) =>
      traced(`StartWorkflow:${input.workflowType}`, input.options.workflowId, (handOn) =>
        next({ ...input, headers: handOn(input.headers) }),
      ),
    signal: (input, next) =>
      traced(`SignalWorkflow:${input.signalName}`, input.workflowExecution.workflowId, (handOn) =>
        next({ ...input, headers: handOn(input.headers) }),
      ),
    startUpdate: (input, next) =>
      traced(`StartWorkflowUpdate:${input.updateName}`, input.workflowExecution.workflowId, (handOn) =>
        next({ ...input, headers: handOn(input.headers) }),
      ),
    startUpdateWithStart: (input, next) =>
      traced(`UpdateWithStartWorkflow:${input.updateName}`, input.workflowStartOptions.workflowId, (handOn) =>
        next({
          ...input,
          workflowStartHeaders: handOn(input.workflowStartHeaders),
          updateHeaders: handOn(input.updateHeaders),
        }),
      ),
  };
}

type HandOn = (headers: Headers) => Headers;
