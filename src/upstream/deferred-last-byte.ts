/**
 * Holds back the last byte of a write's body until `beforeLastByte` allows it. A write that ends before is surely not
 * delivered.
 */
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { setImmediate as otherEvents, setTimeout as pause } from 'node:timers/promises';
import type { ExchangeError, ResponseReader } from './exchange.js';

/**
 * At least how long the last byte is held back. An upstream that resets the connection or answers with an error within
 * this time has not accepted the write. A write takes seconds, so the delay hardly counts.
 */
const HOLD_MS = 20;

const TOO_LATE: ExchangeError = { kind: 'withheld', reason: 'it was too late to send it' };
const NOT_ALLOWED: ExchangeError = { kind: 'withheld', reason: 'its last byte was not allowed to leave' };

export interface DeferredLastByteOptions {
  reader: ResponseReader;
  /** The connection, once there is one. */
  socketOf: () => Socket | undefined;
  /** See WriteOptions; a rejection ends the exchange. */
  beforeLastByte: () => Promise<() => boolean>;
}

/**
 * The bytes of a write's body, the last one apart: it follows only when the socket has handed all others to the
 * operating system, nobody has rejected them, and `beforeLastByte` allows it. Until then the upstream holds a request
 * shorter than its declared length and a JSON text without its closing brace: it can't have accepted it.
 */
export function deferredLastByteBody(bytes: Uint8Array, options: DeferredLastByteOptions): Readable {
  let isBegun = false;
  const body = new Readable({
    read() {
      if (isBegun) return;
      isBegun = true;
      body.push(bytes.subarray(0, -1));
      finish(body, bytes.subarray(-1), options).catch((cause: unknown) =>
        options.reader.end({ ...NOT_ALLOWED, cause }),
      );
    },
  });
  body.on('error', () => {}); // The reader tells what went wrong.
  return body;
}

async function finish(
  body: Readable,
  lastByte: Uint8Array,
  { reader, socketOf, beforeLastByte }: DeferredLastByteOptions,
): Promise<void> {
  const isOver = () => reader.isOver || reader.isRejected;
  do {
    await pause(HOLD_MS);
    await otherEvents(); // What a busy process has not looked at yet counts too.
    if (isOver()) return;
  } while (!body.readableFlowing || (socketOf()?.writableLength ?? 0) > 0);
  const mayFinish = await beforeLastByte();
  await otherEvents();
  if (isOver()) return;
  if (!mayFinish()) return reader.end(TOO_LATE);
  // Nothing else of this process runs between that question and the socket's write: the body is flowing and empty.
  reader.requestIsWhole = true;
  body.push(lastByte);
  body.push(null);
}
