/** Which answers may wait for their readers: how many bytes of them, and how long for a reader that takes nothing. */
import type { ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { add, type Limits, tooMuch } from './limits.js';

/** An answer on its way. */
export interface Reader {
  readonly response: ServerResponse;
  readonly countedAs: string;
  /** The caller of a stream comes back. */
  readonly isStream: boolean;
  /** Aborted when the caller goes away. */
  readonly gone: AbortSignal;
}

/** What a reader has not taken yet, and when it last took some of it. */
interface Held {
  readonly bytes: Buffer;
  readonly since: number;
}

/** A slow reader takes this within any of the limits. */
const SLICE_BYTES = 16 * 1024;
/** What is shorter counts for nothing: its connection costs as much. */
const UNCOUNTED_BYTES = 1024;
const NEXT_CHECK_MS = 1_000;
/** All callers together: no hash of a key, and no address. */
const ALL = 'all';

/** The answers of a server that wait for their readers. */
export class Unread {
  readonly #limits: Limits;
  /** The longest silent first. */
  readonly #held = new Map<Reader, Held>();
  /** How many readers of each caller wait for the same bytes, which are in memory once. */
  readonly #readersOf = new Map<Buffer, Map<string, number>>();
  readonly #bytes = new Map<string, number>();

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  get bytes(): number {
    return this.#bytes.get(ALL) ?? 0;
  }

  /** Sends a whole answer. Throws a problem 503 before its head is written if there is no room. */
  async answer(reader: Reader, bytes: Buffer, writeHead: () => void): Promise<void> {
    if (!this.#hold(reader, bytes)) throw noRoom();
    writeHead();
    await this.#write(reader, bytes);
    await this.end(reader);
  }

  /** Sends a part of a stream once there is room. Before the first part it throws a problem 503 in place of waiting. */
  async stream(reader: Reader, bytes: Buffer): Promise<void> {
    while (!this.#hold(reader, bytes)) {
      if (!reader.response.headersSent) throw noRoom();
      await delay(NEXT_CHECK_MS, undefined, { signal: reader.gone });
    }
    await this.#write(reader, bytes);
    reader.gone.throwIfAborted();
  }

  end({ response }: Reader): Promise<void> {
    return this.#taken(response, (done) => response.end(done));
  }

  async #write(reader: Reader, bytes: Buffer): Promise<void> {
    const { response } = reader;
    const held = this.#held.get(reader);
    for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
      await this.#taken(response, (done) => response.write(bytes.subarray(at, at + SLICE_BYTES), done));
      if (held && this.#held.delete(reader)) this.#held.set(reader, { bytes, since: performance.now() });
    }
    if (held) this.#free(reader, held);
  }

  /** Waits until the reader took what is written, or is gone; closes the connection of one that takes nothing. */
  async #taken(response: ServerResponse, write: (done: () => void) => unknown): Promise<void> {
    if (response.destroyed) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => response.destroy(), this.#limits.unreadMs);
      const done = () => {
        clearTimeout(timer);
        response.off('close', done);
        resolve();
      };
      response.once('close', done);
      write(done);
    });
  }

  /** Counts what is to be written, if there is room for it. */
  #hold(reader: Reader, bytes: Buffer): boolean {
    if (bytes.length <= UNCOUNTED_BYTES || reader.response.destroyed) return true;
    if (!this.#makeRoom(reader.countedAs, bytes)) return false;
    this.#held.set(reader, { bytes, since: performance.now() });
    this.#count(reader, bytes, 1);
    return true;
  }

  /** Closes streams that have been silent for too long, until there is room. */
  #makeRoom(countedAs: string, bytes: Buffer): boolean {
    const silentSince = performance.now() - this.#limits.silentMs;
    for (const [other, held] of this.#held) {
      const isFull = !this.#hasRoom(ALL, bytes);
      if (held.since > silentSince || (!isFull && this.#hasRoom(countedAs, bytes))) break;
      if (!other.isStream || (other.countedAs !== countedAs && !isFull)) continue;
      other.response.destroy();
      this.#free(other, held);
    }
    return this.#hasRoom(ALL, bytes) && this.#hasRoom(countedAs, bytes);
  }

  #hasRoom(countedAs: string, bytes: Buffer): boolean {
    const readers = this.#readersOf.get(bytes);
    if (countedAs === ALL ? readers : readers?.has(countedAs)) return true;
    const maxBytes = this.#limits.answerBytes / (countedAs === ALL ? 1 : 4);
    return (this.#bytes.get(countedAs) ?? 0) + bytes.length <= maxBytes;
  }

  #free(reader: Reader, { bytes }: Held): void {
    if (this.#held.delete(reader)) this.#count(reader, bytes, -1);
  }

  #count({ countedAs }: Reader, bytes: Buffer, more: 1 | -1): void {
    const readers = this.#readersOf.get(bytes) ?? new Map<string, number>();
    const [wasOfCaller, wasThere] = [readers.has(countedAs), readers.size > 0];
    add(readers, countedAs, more);
    if (wasOfCaller !== readers.has(countedAs)) add(this.#bytes, countedAs, more * bytes.length);
    if (wasThere !== readers.size > 0) add(this.#bytes, ALL, more * bytes.length);
    if (readers.size > 0) this.#readersOf.set(bytes, readers);
    else this.#readersOf.delete(bytes);
  }
}

function noRoom(): Error {
  return tooMuch(503, 'too many bytes of answers wait for their readers', 2);
}
