/** Holds back a write's last byte until `beforeLastByte` allows it: a write that ends before is not delivered. */
import { Readable } from 'node:stream';
import { setImmediate as otherEvents, setTimeout as pause } from 'node:timers/promises';
import { type Exchange, ExchangeError } from './exchange.js';
import type { BeforeLastByte } from './upstream.js';

/**
 * The last byte is held back for this time or longer. An upstream that resets the connection or answers with an error
 * within this time has not accepted the write. A write takes seconds, so the delay hardly counts.
 */
const HOLD_MS = 20;

interface DeferredLastByteOptions {
  exchange: Exchange;
  /** Aborted when the exchange is over. */
  signal: AbortSignal;
  beforeLastByte: BeforeLastByte;
  /** Gets why the last byte does not leave. undici can't bear an error of the body once a response has begun. */
  onWithheld: (error: ExchangeError) => void;
}

/**
 * The bytes of a write's body, the last one apart. It follows only when the socket has handed all others to the
 * operating system, the upstream has not answered with an error, and `beforeLastByte` allows it. Until then the
 * upstream holds a request shorter than its declared length and a JSON text without its closing brace: it can't have
 * accepted it.
 */
export function deferredLastByteBody(bytes: Uint8Array, options: DeferredLastByteOptions): Readable {
  let isBegun = false;
  const body = new Readable({
    read() {
      if (isBegun) return;
      isBegun = true;
      body.push(bytes.subarray(0, -1));
      finish(body, bytes.subarray(-1), options).catch((cause: unknown) =>
        options.onWithheld(new ExchangeError('withheld', 'its last byte was not allowed to leave', { cause })),
      );
    },
  });
  body.on('error', () => {}); // undici gives it that of the connection.
  return body;
}

async function finish(
  body: Readable,
  lastByte: Uint8Array,
  { exchange, signal, beforeLastByte, onWithheld }: DeferredLastByteOptions,
): Promise<void> {
  const isOver = () => body.destroyed || signal.aborted || exchange.isComplete || exchange.hasError;
  do {
    await pause(HOLD_MS);
    await otherEvents(); // Events that a busy process has not handled yet count too.
    if (isOver()) return;
  } while (!body.readableFlowing || (exchange.socket?.writableLength ?? 0) > 0);
  const mayFinish = await beforeLastByte();
  await otherEvents();
  if (isOver()) return;
  if (!mayFinish()) return onWithheld(new ExchangeError('withheld', 'it was too late to send it'));
  // Nothing else of this process runs between that question and the socket's write: the body is flowing and empty.
  exchange.requestIsWhole = true;
  body.push(lastByte);
  body.push(null);
}
