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
