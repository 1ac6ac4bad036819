/** One request as a handler sees it: checked headers, query and body, and the job that its path names. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { checkObject, type JsonSchema } from '../contract/kinds.js';
import { InvalidInputError } from '../contract/errors.js';
import { checkKnownFields, checkNames, type Names } from '../client/settings.js';
import type { OperationCall } from '../operations.js';
import type { Arguments } from '../operations/arguments.js';
import type { JobHandle } from '../starter.js';
import type { Caller } from './keys.js';
import { type CallerLimits, checkShape } from './limits.js';
import { Problem, readOr400 } from './problem.js';

/** What a handler works with; `args` are those of the query or the body. */
export interface Call extends Omit<OperationCall, 'waitMs' | 'keyName'> {
  /** The project of a path that names one. */
  readonly projectId: string | null;
  /** The job that the path names; sends no request. */
  readonly job: () => JobHandle;
  /** What this server is, and where it reports what is wrong here, not with a request; never a key or a prompt. */
  readonly service: {
    readonly version: string;
    /** The address that callers use, if it is another one than that at which this server listens. */
    readonly publicUrl?: string | undefined;
    /** Other sites whose pages may call tools. */
    readonly allowedOrigins?: readonly string[] | undefined;
    /** How long a tool of an agent may wait; default 50 seconds. */
    readonly maxToolWaitMs?: number | undefined;
    readonly onProblem: (problem: string) => void;
  };
  readonly caller: Caller;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Writes a part of a stream once there is room for it, until its reader took it. Throws if the reader goes away. */
  readonly stream: (bytes: Buffer) => Promise<void>;
  /** Waits for a turn to work. Throws a problem 503 if that takes too long. */
  readonly turn: () => Promise<void>;
}

/** What is answered: text and bytes as they are, anything else as JSON. */
export interface Answer {
  readonly status: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Room for a prompt of 512 KiB, if its characters are escaped. */
const MAX_BODY_BYTES = 2 * 1024 * 1024;
const MAX_WAIT_SECONDS = 60;
// A byte order mark is a character like others: one key must not have two spellings.
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The one value of a header: of two, a proxy may have gone by the other one. Throws a problem 400. */
export function headerOf({ headersDistinct }: IncomingMessage, name: string): string | undefined {
  const [value, ...others] = headersDistinct[name] ?? [];
  if (others.length > 0) throw new Problem(400, `the header ${name} must come once`);
  return value;
}

/** The seconds of `Prefer: wait`, in milliseconds; 0 without, and if they are no number, as RFC 7240 has it. */
export function waitOf({ headers: { prefer = '' } }: IncomingMessage): number {
  const [, seconds = '0'] = /(?:^|[,;])\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:[,;]|$)/i.exec(String(prefer)) ?? [];
  return Math.min(Number(seconds), MAX_WAIT_SECONDS) * 1_000;
}

/** `Idempotency-Key` as it is, or as the quoted string of its draft; UTF-8, which Node hands on byte by byte. */
export function idempotencyKeyOf(request: IncomingMessage): string | undefined {
  const given = headerOf(request, 'idempotency-key');
  if (given === undefined) return undefined;
  const text = readOr400('Idempotency-Key must be UTF-8', () => UTF8.decode(Buffer.from(given, 'latin1')));
  const [, quoted] = /^"((?:[^"\\]|\\["\\])*)"$/.exec(text) ?? [];
  return quoted === undefined ? text : quoted.replace(/\\(.)/g, '$1');
}

/** Checks the parameters of a query; one that takes a list may come several times. Throws InvalidInputError. */
export function readQuery(search: string, kinds: Arguments): Record<string, unknown> {
  const given = new URLSearchParams(search);
  checkNames<object>(Object.fromEntries(given), 'parameter', kinds as Names<object>);
  const parsed = [...new Set(given.keys())].map((name): [string, unknown] => {
    const values = given.getAll(name);
    const isList = 'items' in kinds[name]!.schema();
    if (!isList && values.length > 1) throw new InvalidInputError(name, 'must be given once');
    return [name, kinds[name]!.check(isList ? values : values[0], name)];
  });
  return Object.fromEntries(parsed);
}

interface BodySource extends Pick<Call, 'request' | 'response' | 'turn'> {
  readonly limits: CallerLimits;
  /** For whom the limits are counted. */
  readonly countedAs: string;
}

/** The body as an object of known fields. */
export async function readBody(source: BodySource, schema: JsonSchema): Promise<Record<string, unknown>> {
  const { request, response } = source;
  const { headers } = request;
  const type = headerOf(request, 'content-type') ?? '';
  const isJson = /^application\/json\s*(;\s*charset\s*=\s*"?utf-?8"?\s*)?$/i.test(type);
  if (!isJson || headers['content-encoding'] !== undefined) {
    throw new Problem(415, 'Content-Type must be application/json, and without Content-Encoding');
  }
  checkSize(Number(headers['content-length'] ?? 0));
  // HTTP/1.0 knows no such answer.
  if (headers.expect !== undefined && request.httpVersion === '1.1') response.writeContinue();
  const body = await readJson(source);
  checkKnownFields(checkObject(body, 'body'), schema, null);
  return body as Record<string, unknown>;
}

async function readJson({ request, limits, countedAs, turn }: BodySource): Promise<unknown> {
  let body = Buffer.alloc(0);
  let bytes = 0;
  try {
    // Destroyed, it would take the answer with it.
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      checkSize(bytes + chunk.length);
      limits.takeBytes(countedAs, chunk.length);
      bytes += chunk.length;
      await turn();
      // A list of parts of one byte each would take two hundred times their size.
      if (bytes > body.length) body = Buffer.concat([body], 2 * bytes);
      chunk.copy(body, bytes - chunk.length);
    }
    await turn();
    const whole = body.subarray(0, bytes);
    checkShape(whole);
    return readOr400('the body must be JSON in UTF-8', (): unknown => JSON.parse(UTF8.decode(whole)));
  } finally {
    limits.freeBytes(countedAs, bytes);
  }
}

function checkSize(bytes: number): void {
  if (bytes > MAX_BODY_BYTES) throw new Problem(413, `the body must have at most ${MAX_BODY_BYTES} bytes`);
}
