interface Listening {
  callbacks: Set<(reason: unknown) => void>;
  listener: () => void;
}

const listening = new WeakMap<AbortSignal, Listening>();

/**
 * Calls back once the signal is aborted; the function that it returns ends that. All callbacks of a signal share one
 * listener. Node warns of a leak at more than ten, and a caller may give one signal to a hundred waits.
 */
export function onAbort(signal: AbortSignal | null | undefined, callback: (reason: unknown) => void): () => void {
  if (signal == null) return () => {};
  const { callbacks, listener } = listening.get(signal) ?? listen(signal);
  callbacks.add(callback);
  return () => {
    callbacks.delete(callback);
    if (callbacks.size > 0) return;
    signal.removeEventListener('abort', listener);
    listening.delete(signal);
  };
}

function listen(signal: AbortSignal): Listening {
  const callbacks = new Set<(reason: unknown) => void>();
  const listener = () => callbacks.forEach((callback) => callback(signal.reason));
  signal.addEventListener('abort', listener, { once: true });
  const started = { callbacks, listener };
  listening.set(signal, started);
  return started;
}

/** A signal that is aborted with the first of those given, until `release`. */
export function firstOf(signals: (AbortSignal | null | undefined)[]): { signal: AbortSignal; release: () => void } {
  const own = new AbortController();
  const stops = signals.map((signal) => onAbort(signal, (reason) => own.abort(reason)));
  const aborted = signals.find((signal) => signal?.aborted);
  if (aborted) own.abort(aborted.reason);
  return { signal: own.signal, release: () => stops.forEach((stop) => stop()) };
}
