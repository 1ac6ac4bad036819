/** Work on very many items, some of them at once, in memory that does not grow with their number. */
import { onAbort } from './abort-signal.js';

interface Limits {
  /** Items that are in work at the same moment. */
  limit: number;
  /** Once it is aborted no further item is begun. What is in work is finished; then the call ends with its reason. */
  signal?: AbortSignal | null | undefined;
}

type Step<T, R> =
  | { kind: 'item'; item: T }
  | { kind: 'done'; result: R }
  | { kind: 'failed'; error: unknown }
  /** No more is begun, as there is no more, or for an error. */
  | { kind: 'over'; error?: unknown };

/**
 * Does the same for each item and yields each result as it comes. An item is read only when it can be begun. After an
 * error of the source or of the work nothing more is begun; what is in work is finished, then the error is thrown.
 */
export async function* concurrently<T, R>(
  items: Iterable<T> | AsyncIterable<T>,
  { limit, signal }: Limits,
  work: (item: T) => Promise<R>,
): AsyncGenerator<R, void, undefined> {
  signal?.throwIfAborted();
  const source = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  const steps = new Steps<Step<T, R>>();
  const stopListening = onAbort(signal, (error) => steps.add({ kind: 'over', error }));
  let inWork = 0;
  let isReading = false;
  let isOver = false;
  let failure: unknown;
  try {
    while (!isOver || inWork > 0) {
      if (!isOver && !isReading && inWork < limit) {
        isReading = true;
        void readItem(source).then((step) => steps.add(step));
      }
      const step = await steps.next();
      if (step.kind === 'item') {
        isReading = false;
        if (isOver) continue;
        inWork += 1;
        void perform(work, step.item).then((ended) => steps.add(ended));
        continue;
      }
      if (step.kind !== 'over') inWork -= 1;
      if (step.kind === 'done') yield step.result;
      else {
        isOver = true;
        failure ??= step.error;
      }
    }
  } finally {
    stopListening();
    // Not awaited: a source that waits for its next item would keep the caller waiting.
    void closeSource(source);
  }
  if (failure !== undefined) throw failure;
}

type Source<T> = Iterator<T> | AsyncIterator<T>;

async function readItem<T>(source: Source<T>): Promise<Step<T, never>> {
  try {
    const { done, value } = await source.next();
    return done ? { kind: 'over' } : { kind: 'item', item: value };
  } catch (error) {
    return { kind: 'over', error };
  }
}

async function perform<T, R>(work: (item: T) => Promise<R>, item: T): Promise<Step<never, R>> {
  try {
    return { kind: 'done', result: await work(item) };
  } catch (error) {
    return { kind: 'failed', error };
  }
}

async function closeSource(source: Source<unknown>): Promise<void> {
  try {
    await source.return?.();
  } catch {
    // Its error would hide the call's own end.
  }
}

/** What happened, in that order. A race of promises would keep something of each round on the one that lasts. */
class Steps<S> {
  readonly #steps: S[] = [];
  #wake: () => void = () => {};

  add(step: S): void {
    this.#steps.push(step);
    this.#wake();
  }

  async next(): Promise<S> {
    while (this.#steps.length === 0) await new Promise<void>((resolve) => (this.#wake = resolve));
    return this.#steps.shift() as S;
  }
}
