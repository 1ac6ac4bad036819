import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { setImmediate as otherEvents, setTimeout as pause } from 'node:timers/promises';
import type { AnswerReader } from './response-reader.js';
import type { Trouble } from './exchange.js';

/**
 * How long the last byte is held back: about a round trip, so that a connection that is refused, reset or answered with
 * an error at once is known as not sent. A write takes seconds upstream; this is nothing to it.
 */
const HOLD_MS = 20;

const TOO_LATE: Trouble = { kind: 'withheld', reason: 'it was too late to send it' };
const REFUSED: Trouble = { kind: 'withheld', reason: 'its last byte was not allowed to leave' };

export interface PacedBodyOptions {
  reader: AnswerReader;
  /** The connection, once there is one. */
  socketOf: () => Socket | undefined;
  /** See WriteOptions; a rejection ends the exchange. */
  beforeLastByte: () => Promise<() => boolean>;
}

/**
 * The bytes of a write's body, the last one apart: it follows only when the socket has handed all others to the operating
 * system, nobody has refused them, and `beforeLastByte` allows it. Until then the upstream holds a request shorter than its declared
 * length and a JSON text without its closing brace: it can't have taken it.
 */
export function pacedBody(bytes: Uint8Array, options: PacedBodyOptions): Readable {
  let isBegun = false;
  const body = new Readable({
    read() {
      if (isBegun) return;
      isBegun = true;
      body.push(bytes.subarray(0, -1));
      finish(body, bytes.subarray(-1), options).catch((cause: unknown) => options.reader.end({ ...REFUSED, cause }));
    },
  });
  body.on('error', () => {}); // The reader tells what went wrong.
  return body;
}

async function finish(
  body: Readable,
  lastByte: Uint8Array,
  { reader, socketOf, beforeLastByte }: PacedBodyOptions,
): Promise<void> {
  const isAtAnEnd = () => reader.isOver || reader.isRefused;
  do {
    await pause(HOLD_MS);
    await otherEvents(); // What a busy process has not looked at yet counts too.
    if (isAtAnEnd()) return;
  } while (!body.readableFlowing || (socketOf()?.writableLength ?? 0) > 0);
  const mayFinish = await beforeLastByte();
  await otherEvents();
  if (isAtAnEnd()) return;
  if (!mayFinish()) return reader.end(TOO_LATE);
  // Nothing else of this process runs between that question and the socket's write: the body is flowing and empty.
  reader.requestIsWhole = true;
  body.push(lastByte);
  body.push(null);
}
