/** A collector of OpenTelemetry's spans over OTLP/HTTP, as protobuf, on a real socket. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import protobuf from 'protobufjs';

/** A span as it was received; ids in hexadecimal digits, times in milliseconds. */
export interface ReceivedSpan {
  service: unknown;
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId: string;
  startedAt: number;
  endedAt: number;
  error: string | null;
  attributes: Record<string, unknown>;
  links: { traceId: string; spanId: string }[];
}

export interface Collector {
  url: string;
  /** In the order received. */
  spans: ReceivedSpan[];
  /** Requests that wait for an answer. */
  held: () => number;
  close: () => Promise<void>;
}

/** Starts one; with `answers: false` it takes requests and never answers. */
export async function startCollector({ answers = true } = {}): Promise<Collector> {
  const spans: ReceivedSpan[] = [];
  let held = 0;
  const server = createServer((request, response) => {
    void receive(request, spans).then(() => {
      if (answers) return answer(response);
      held += 1;
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    held: () => held,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

function answer(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
}

async function receive(request: IncomingMessage, spans: ReceivedSpan[]): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  if (request.method !== 'POST' || request.url !== '/v1/traces') throw new Error(`asked for ${request.url}`);
  spans.push(...spansIn(decode(body)));
}

/** The part of OTLP's messages that the tests read (opentelemetry-proto, trace/v1). */
const SCHEMA = `syntax = "proto3";
message Export { repeated ResourceSpans resourceSpans = 1; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scopeSpans = 2; }
message Resource { repeated KeyValue attributes = 1; }
message ScopeSpans { repeated Span spans = 2; }
message Span {
  bytes traceId = 1; bytes spanId = 2; bytes parentSpanId = 4; string name = 5;
  fixed64 startTimeUnixNano = 7; fixed64 endTimeUnixNano = 8;
  repeated KeyValue attributes = 9; repeated Link links = 13; Status status = 15;
}
message Link { bytes traceId = 1; bytes spanId = 2; }
message Status { string message = 2; int32 code = 3; }
message KeyValue { string key = 1; AnyValue value = 2; }
message AnyValue { string stringValue = 1; int64 intValue = 3; double doubleValue = 4; }`;

interface Export {
  resourceSpans: { resource?: { attributes?: KeyValue[] }; scopeSpans: { spans: SentSpan[] }[] }[];
}

type KeyValue = { key: string; value: Record<string, unknown> };

interface SentSpan {
  traceId: Uint8Array;
  spanId: Uint8Array;
  parentSpanId?: Uint8Array;
  name: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes?: KeyValue[];
  links?: { traceId: Uint8Array; spanId: Uint8Array }[];
  status?: { message?: string; code?: number };
}

const ERROR = 2;

function decode(body: Buffer): Export {
  const type = protobuf.parse(SCHEMA, { keepCase: true }).root.lookupType('Export');
  return type.toObject(type.decode(body), { longs: String }) as Export;
}

function spansIn({ resourceSpans }: Export): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({ service: valuesOf(resource?.attributes)['service.name'], ...received(span) })),
    ),
  );
}

function received(span: SentSpan): Omit<ReceivedSpan, 'service'> {
  return {
    name: span.name,
    traceId: hex(span.traceId),
    spanId: hex(span.spanId),
    parentSpanId: hex(span.parentSpanId),
    startedAt: Number(BigInt(span.startTimeUnixNano) / 1_000_000n),
    endedAt: Number(BigInt(span.endTimeUnixNano) / 1_000_000n),
    error: span.status?.code === ERROR ? (span.status.message ?? '') : null,
    attributes: valuesOf(span.attributes),
    links: (span.links ?? []).map(({ traceId, spanId }) => ({ traceId: hex(traceId), spanId: hex(spanId) })),
  };
}

function hex(id: Uint8Array = new Uint8Array()): string {
  return Buffer.from(id).toString('hex');
}

function valuesOf(attributes: KeyValue[] = []): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
