/** What a worker does again and again until it stops. */

/** From the end of one round of a watch over jobs, exports or webhooks to the next. */
export const WATCH_EVERY_MS = 60_000;
/** Limits one request of a watch to Temporal; the next round asks again. */
export const WATCH_LIMIT_MS = 10_000;

interface EveryOptions {
  /** Milliseconds before the first round; else it begins at once. */
  firstMs?: number;
  /** Gets what a round threw before the stop; of failures in a row, the first. The next round comes all the same. */
  onError?: (error: unknown) => void;
}

/** Does the work in rounds with pauses of `pauseMs`; returns what stops that. The process does not live on for it. */
export function every(
  pauseMs: number,
  work: (stopped: AbortSignal) => unknown,
  { firstMs = 0, onError = () => {} }: EveryOptions = {},
): () => void {
  const stop = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let hasFailed = false;
  const later = (ms: number) => {
    timer = setTimeout(() => void round(), ms).unref();
  };
  const round = async () => {
    try {
      await work(stop.signal);
      hasFailed = false;
    } catch (error) {
      if (!stop.signal.aborted && !hasFailed) onError(error);
      hasFailed = true;
    }
    if (!stop.signal.aborted) later(pauseMs);
  };
  if (firstMs > 0) later(firstMs);
  else void round();
  return () => {
    stop.abort();
    clearTimeout(timer);
  };
}
