/**
 * Interim responses (1xx): undici ends the connection of a request that is answered with `100 Continue` unasked, so its
 * parser must not see them.
 */
import type { Socket } from 'node:net';

/** 101 is none: what follows it is another protocol. */
const INTERIM = /^HTTP\/1\.[01] 1(?!01)\d\d/;
const STATUS_LINE_START = 'HTTP/1.1 100';
const HEAD_END = '\r\n\r\n';
/** An interim response whose head is longer than this is left to the parser. */
const MAX_HEAD_BYTES = 16 * 1024;

/**
 * Leaves the interim responses out of what is read from a socket; `expectResponse` says that another response begins.
 */
export class InterimResponses {
  /** What has come of a response that may yet be an interim one; null once it is the final one. */
  #start: Buffer | null = Buffer.alloc(0);

  constructor(socket: Socket) {
    const read = socket.read.bind(socket) as (size?: number) => Buffer | null;
    socket.read = (size?: number): Buffer | null => {
      for (let chunk = read(size); ; chunk = read(size)) {
        if (chunk === null || this.#start === null) return chunk;
        const rest = this.#take(Buffer.concat([this.#start, chunk]));
        if (rest.length > 0) return rest;
      }
    };
  }

  expectResponse(): void {
    this.#start = Buffer.alloc(0);
  }

  /** What of `bytes` is for the parser. */
  #take(bytes: Buffer): Buffer {
    let rest = bytes;
    while (mayBeInterim(rest)) {
      const end = rest.indexOf(HEAD_END);
      if (end < 0 && rest.length <= MAX_HEAD_BYTES) {
        this.#start = rest;
        return Buffer.alloc(0);
      }
      if (end < 0) break;
      rest = rest.subarray(end + HEAD_END.length);
    }
    this.#start = null;
    return rest;
  }
}

/** Whether it is the start of an interim response, as far as it has come. */
function mayBeInterim(bytes: Buffer): boolean {
  const start = bytes.toString('latin1', 0, STATUS_LINE_START.length);
  return INTERIM.test(start + STATUS_LINE_START.slice(start.length));
}
