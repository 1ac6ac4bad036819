/** What one caller may take of the server: requests in ten seconds, connections, and memory for bodies and answers. */
import type { Socket } from 'node:net';
import { Problem } from './problem.js';

/** The limits; tests set smaller ones. */
export interface Limits {
  /** Requests of one caller in ten seconds. */
  readonly requests: number;
  /** Open connections of one caller. A stream is one. */
  readonly connections: number;
  /** Open connections that have shown no known key: of all, and of an address; 0: no limit of an address. */
  readonly strangers: number;
  readonly strangersPerAddress: number;
  /** Bytes of bodies that are still on their way, of all callers. One caller may take a quarter. */
  readonly bodyBytes: number;
  /** Bytes of answers that their readers have not taken, of all callers. One caller may take a quarter. */
  readonly answerBytes: number;
  readonly unreadMs: number;
  /** How long a stream's reader may take nothing while others need its room. */
  readonly silentMs: number;
}

/** The limits of a server. */
export const LIMITS: Limits = {
  requests: 2_000,
  connections: 1_000,
  strangers: 1_000,
  strangersPerAddress: 256,
  bodyBytes: 64 * 1024 * 1024,
  answerBytes: 64 * 1024 * 1024,
  unreadMs: 100_000,
  silentMs: 10_000,
};
const MAX_DEPTH = 100;
const MAX_VALUES = 20_000;
const WINDOW_MS = 10_000;

/** Counts what callers take. Each method throws a problem if a caller takes too much. */
export class CallerLimits {
  readonly #limits: Limits;
  #window = 0;
  #requests = new Map<string, number>();
  readonly #connections = new Map<string, number>();
  readonly #callerOf = new WeakMap<Socket, string>();
  readonly #bytes = new Map<string, number>();
  #allBytes = 0;

  constructor(limits: Limits = LIMITS) {
    this.#limits = limits;
  }

  /** Throws a problem 429. */
  countRequest(caller: string): void {
    const now = Date.now() / WINDOW_MS;
    if (Math.floor(now) !== this.#window) this.#requests = new Map();
    this.#window = Math.floor(now);
    const { requests } = this.#limits;
    if (add(this.#requests, caller, 1) <= requests) return;
    const seconds = Math.ceil(((this.#window + 1 - now) * WINDOW_MS) / 1_000);
    throw tooMuch(429, `at most ${requests} requests in ${WINDOW_MS / 1_000} seconds`, seconds);
  }

  /** Counts a connection for the caller of its newest request: a balancer sends those of many. Throws a problem 429. */
  countConnection(caller: string, socket: Socket): void {
    const before = this.#callerOf.get(socket);
    // The end of one that is closed already would not be noticed.
    if (before === caller || socket.destroyed) return;
    const { connections } = this.#limits;
    if ((this.#connections.get(caller) ?? 0) >= connections) {
      throw tooMuch(429, `at most ${connections} connections at a time, each stream among them`, 10);
    }
    if (before === undefined) socket.once('close', () => add(this.#connections, this.#callerOf.get(socket)!, -1));
    else add(this.#connections, before, -1);
    this.#callerOf.set(socket, caller);
    add(this.#connections, caller, 1);
  }

  /** Takes room for a part of a body; `freeBytes` gives it back. Throws a problem 503. */
  takeBytes(caller: string, bytes: number): void {
    const { bodyBytes } = this.#limits;
    const own = (this.#bytes.get(caller) ?? 0) + bytes;
    if (own > bodyBytes / 4 || this.#allBytes + bytes > bodyBytes) {
      throw tooMuch(503, 'too many bodies are on their way to this server', 2);
    }
    this.freeBytes(caller, -bytes);
  }

  /** Gives back what `takeBytes` took. */
  freeBytes(caller: string, bytes: number): void {
    this.#allBytes -= bytes;
    add(this.#bytes, caller, -bytes);
  }
}

/** A problem of a caller that took too much, and when it may come again. */
export function tooMuch(status: number, detail: string, retryAfterSeconds: number): Problem {
  return new Problem(status, detail, { retryable: true, headers: { 'retry-after': String(retryAfterSeconds) } });
}

/** Adds to a count, and forgets a count of nothing. */
export function add(counts: Map<string, number>, caller: string, more: number): number {
  const count = (counts.get(caller) ?? 0) + more;
  if (count === 0) counts.delete(caller);
  else counts.set(caller, count);
  return count;
}

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c] as const;
const OPEN = [0x5b, 0x7b];
const CLOSE = [0x5d, 0x7d];

/**
 * Declines JSON in UTF-8 of a shape that no call needs: parsing it would hold up all other callers. Throws a problem
 * 400.
 */
export function checkShape(json: Uint8Array): void {
  let depth = 0;
  let values = 0;
  let texts = 0;
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at]!;
    if (byte === QUOTE) [at, texts] = [endOfText(json, at + 1), texts + 1];
    else if (byte === COMMA) values += 1;
    else if (OPEN.includes(byte)) [depth, values] = [depth + 1, values + 1];
    else if (CLOSE.includes(byte)) depth -= 1;
    if (depth > MAX_DEPTH) throw new Problem(400, `the body is nested more than ${MAX_DEPTH} levels deep`);
    // A value may have a text before it, which is its name.
    if (values > MAX_VALUES || texts > 2 * MAX_VALUES)
      throw new Problem(400, `the body has more than ${MAX_VALUES} values`);
  }
}

/** The runtime finds the end of a text, or its first backslash. */
function endOfText(json: Uint8Array, from: number): number {
  const end = json.indexOf(QUOTE, from);
  const text = json.subarray(from, end === -1 ? json.length : end);
  const escape = text.indexOf(BACKSLASH);
  if (escape === -1) return from + text.length;
  let at = from + escape;
  while (at < json.length && json[at] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1;
  return at;
}
