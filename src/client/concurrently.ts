/** Works on very many items, some of them at once, in memory that does not grow with their number. */
import { setMaxListeners } from 'node:events';

interface ConcurrencyOptions {
  /** Items that are in work at the same moment, or done before an earlier one. */
  limit?: number;
  /** Once it is aborted no further item is begun. What is in work is finished; then the call ends with its reason. */
  signal?: AbortSignal | null | undefined;
}

/** Hundreds of jobs take seconds, and a lone worker that answers the queries among the calls is not flooded. */
const DEFAULT_AT_ONCE = 10;

/** One item in work; `done` once it is not. */
interface Slot<R> {
  done?: { result: R } | 'failed';
}

/**
 * Does the same for each item and yields the results in the order of the items. An item is read only when it can be
 * begun. After an error of the source or of the work nothing more is begun; what is in work is finished, then the error
 * is thrown.
 */
export async function* concurrently<T, R>(
  items: Iterable<T> | AsyncIterable<T>,
  { limit = DEFAULT_AT_ONCE, signal }: ConcurrencyOptions,
  work: (item: T) => Promise<R>,
): AsyncGenerator<R, void, undefined> {
  signal?.throwIfAborted();
  const source = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  const slots: Slot<R>[] = [];
  let [isReading, isOver] = [false, false];
  let failure: { error: unknown } | undefined;
  // Not a race of promises, which would keep something of each round on the one that lasts.
  let wake = (): void => {};
  const fail = (error: unknown): void => {
    isOver = true;
    failure ??= { error };
    wake();
  };
  const perform = async (item: T): Promise<void> => {
    const slot: Slot<R> = {};
    slots.push(slot);
    try {
      slot.done = { result: await work(item) };
    } catch (error) {
      slot.done = 'failed';
      fail(error);
    }
    wake();
  };
  const read = async (): Promise<void> => {
    isReading = true;
    try {
      const { done, value } = await source.next();
      if (done) isOver = true;
      else if (!isOver) void perform(value);
    } catch (error) {
      fail(error);
    }
    isReading = false;
    wake();
  };
  const stopListening = onAbort(signal, fail);
  try {
    while (!isOver || slots.length > 0) {
      if (!isOver && !isReading && slots.length < limit) void read();
      const done = slots[0]?.done;
      if (done === undefined) {
        await new Promise<void>((resolve) => (wake = resolve));
        continue;
      }
      slots.shift();
      if (done !== 'failed') yield done.result;
    }
  } finally {
    stopListening();
    // Not awaited: a source that waits for its next item would keep the caller waiting.
    void closeSource(source);
  }
  if (failure) throw failure.error;
}

async function closeSource(source: Iterator<unknown> | AsyncIterator<unknown>): Promise<void> {
  try {
    await source.return?.();
  } catch {
    // Its error would hide the call's own end.
  }
}

/** Calls back once the signal is aborted; the function that it returns ends that. */
export function onAbort(signal: AbortSignal | null | undefined, callback: (reason: unknown) => void): () => void {
  if (signal == null) return () => {};
  // Node warns of a leak at more than ten listeners, and a caller may give one signal to a hundred waits. A signal of
  // another library has no such limit, and Node's function takes no other.
  if (signal instanceof EventTarget) setMaxListeners(0, signal);
  const listener = () => callback(signal.reason);
  signal.addEventListener('abort', listener, { once: true });
  return () => signal.removeEventListener('abort', listener);
}

/** The outcome of work, or the reason of a signal that is aborted before: not all that the SDK does takes a signal. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let stopListening = () => {};
  const aborted = new Promise<never>((_, reject) => (stopListening = onAbort(signal, reject)));
  try {
    return await Promise.race([work, aborted]);
  } finally {
    stopListening();
  }
}

/** A signal that is aborted with the first of those given, until `release`. */
export function firstOf(signals: (AbortSignal | null | undefined)[]): { signal: AbortSignal; release: () => void } {
  const own = new AbortController();
  const stops = signals.map((signal) => onAbort(signal, (reason) => own.abort(reason)));
  const aborted = signals.find((signal) => signal?.aborted);
  if (aborted) own.abort(aborted.reason);
  return { signal: own.signal, release: () => stops.forEach((stop) => stop()) };
}
