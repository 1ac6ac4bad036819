/** One request as a handler sees it: checked headers, query and body, and the job that its path names. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { checkObject, checkWholeNumber, InvalidInputError } from '../contract/input-checks.js';
import type { JsonSchema, Kind } from '../contract/kinds.js';
import { firstOf } from '../client/concurrently.js';
import { checkKnownFields, checkNames, type Names } from '../client/known-fields.js';
import type { AgentJobs, JobHandle } from '../starter.js';
import type { Caller } from './keys.js';
import { Problem, readOr400 } from './problem.js';

/** What a handler works with. */
export interface Call {
  /** What this server is, and whom it tells what is wrong here, not with a request; never with a key or a prompt. */
  readonly service: {
    readonly version: string;
    /** How long a tool of an agent may wait; default 50 seconds. */
    readonly maxToolWaitMs?: number | undefined;
    readonly onProblem: (problem: string) => void;
  };
  readonly jobs: AgentJobs;
  readonly caller: Caller;
  /** Of the path; null in a path without one, and of a job whose id tells none. */
  readonly projectId: string | null;
  /** The job that the path names; asks nobody. */
  readonly job: () => JobHandle;
  readonly query: Readonly<Record<string, unknown>>;
  readonly body: Record<string, unknown>;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Aborted when the caller goes away. */
  readonly gone: AbortSignal;
  /** Aborted when this server is about to end. */
  readonly ending: AbortSignal;
}

/** What is answered: text as it is, anything else as JSON. */
export interface Answer {
  readonly status: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Room for a prompt of 512 KiB, most of whose characters may be escaped. */
const MAX_BODY_BYTES = 2 * 1024 * 1024;
const MAX_WAIT_SECONDS = 60;
const MAX_PAGE = 1_000;
const UTF8 = new TextDecoder('utf-8', { fatal: true });

/** How many items a page has at most. */
export const PAGE_SIZE: Kind<number> = {
  check: (value, field) =>
    checkWholeNumber(typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value, field, [1, MAX_PAGE]),
  schema: () => ({ type: 'integer', minimum: 1, maximum: MAX_PAGE, default: 100 }),
};

/** The one value of a header: of two, a proxy may have gone by the other one. Throws a problem 400. */
export function headerOf({ headersDistinct }: IncomingMessage, name: string): string | undefined {
  const [value, ...others] = headersDistinct[name] ?? [];
  if (others.length > 0) throw new Problem(400, `the header ${name} must come once`);
  return value;
}

/** The seconds of `Prefer: wait`, in milliseconds; 0 without, and where they are no number, as RFC 7240 has it. */
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
export function readQuery(
  search: string,
  kinds: Readonly<Record<string, Pick<Kind<unknown, unknown>, 'check' | 'schema'>>>,
): Record<string, unknown> {
  const given = new URLSearchParams(search);
  checkNames<object>(Object.fromEntries(given), 'parameter', kinds as Names<object>);
  const parsed = [...new Set(given.keys())].map((name): [string, unknown] => {
    const values = given.getAll(name);
    const isList = kinds[name]!.schema()['type'] === 'array';
    if (!isList && values.length > 1) throw new InvalidInputError(name, 'must be given once');
    return [name, kinds[name]!.check(isList ? values : values[0], name)];
  });
  return Object.fromEntries(parsed);
}

/** The body as an object of known fields. */
export async function readBody(request: IncomingMessage, schema: JsonSchema): Promise<Record<string, unknown>> {
  const { headers } = request;
  const type = headerOf(request, 'content-type') ?? '';
  const isJson = /^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(type);
  if (!isJson || headers['content-encoding'] !== undefined) {
    throw new Problem(415, 'Content-Type must be application/json, and without Content-Encoding');
  }
  checkSize(Number(headers['content-length'] ?? 0));
  const given = await readBytes(request);
  const body = readOr400('the body must be JSON in UTF-8', (): unknown => JSON.parse(UTF8.decode(given)));
  checkKnownFields(checkObject(body, 'body'), schema, null);
  return body as Record<string, unknown>;
}

async function readBytes(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  // Destroyed, it would take the answer with it.
  for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    checkSize((bytes += chunk.length));
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function checkSize(bytes: number): void {
  if (bytes > MAX_BODY_BYTES) throw new Problem(413, `the body must have at most ${MAX_BODY_BYTES} bytes`);
}

/** Waits until the work is done, or the caller goes away; null where the time is over, or this server ends before. */
export async function whileWanted<T>(
  { gone, ending }: Pick<Call, 'gone' | 'ending'>,
  limitMs: number,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T | null> {
  const { signal, release } = firstOf([gone, ending, AbortSignal.timeout(limitMs)]);
  try {
    return await work(signal);
  } catch (error) {
    if (!gone.aborted && signal.aborted) return null;
    throw error;
  } finally {
    release();
  }
}
