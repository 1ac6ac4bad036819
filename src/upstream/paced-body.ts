import { setImmediate as otherEvents, setTimeout as pause } from 'node:timers/promises';
import type { Socket } from 'node:net';
import type { AnswerReader } from './answer-reader.js';

/**
 * How long the last byte is held back: about a round trip, so that a connection that is refused, reset or answered with
 * an error at once is known as not sent. A write takes seconds upstream; this is nothing to it.
 */
const HOLD_MS = 20;

/**
 * The bytes of a write's body, the last one apart: it follows only when the socket has handed all others to the operating
 * system, nobody has refused them, and the write may still be sent. Until then the upstream holds a request shorter than its declared
 * length and a JSON text without its closing brace: it can't have taken it.
 */
export async function* pacedBody(
  bytes: Uint8Array,
  { reader, socketOf, mayFinish }: PacedBodyOptions,
): AsyncGenerator<Uint8Array, void> {
  yield bytes.subarray(0, -1);
  do {
    await pause(HOLD_MS);
    await otherEvents(); // What a busy process has not looked at yet counts too.
    if (reader.isOver) return;
  } while (reader.isRefused || (socketOf()?.writableLength ?? 0) > 0);
  if (!mayFinish()) return;
  reader.requestIsWhole = true;
  yield bytes.subarray(-1);
}

export interface PacedBodyOptions {
  reader: AnswerReader;
  /** The connection, once there is one. */
  socketOf: () => Socket | undefined;
  /** Asked right before the last byte; false where it must not follow any more, the reader having ended. */
  mayFinish: () => boolean;
}
