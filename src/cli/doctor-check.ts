/** One check of `doctor`: what it found, what to do about it, and a limit of time. */

/** `skip`: not asked for, or another check failed first. */
export type CheckStatus = 'ok' | 'warn' | 'fail' | 'skip';

/** What a check found. */
export interface Finding {
  status: CheckStatus;
  text: string;
  /** What to do, in lines of which each is a sentence or a command. */
  remedy?: readonly string[];
  /** Temporal does not answer. */
  isOutage?: boolean;
}

/** A check under its name. */
export interface Check {
  name: string;
  finding: Promise<Finding>;
}

/** What is asked of Temporal and of the upstream has limits of its own, of seconds; a store has only this one. */
const CHECK_LIMIT_MS = 15_000;

/** Runs a check that ends within its limit; an error of it is a finding. */
export async function limited<T extends Finding>(
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T | Finding> {
  const limit = new AbortController();
  const onInterrupt = () => limit.abort(signal.reason);
  signal.addEventListener('abort', onInterrupt, { once: true });
  const timer = setTimeout(
    () => limit.abort(new Error(`no answer within ${CHECK_LIMIT_MS / 1_000} seconds`)),
    CHECK_LIMIT_MS,
  );
  const aborted = new Promise<never>((_, reject) => {
    limit.signal.addEventListener('abort', () => reject(limit.signal.reason as Error), { once: true });
  });
  try {
    return await Promise.race([work(limit.signal), aborted]);
  } catch (error) {
    signal.throwIfAborted();
    const { name, message } = (limit.signal.reason ?? error) as Error;
    return { status: 'fail', text: message, isOutage: name === 'TemporalUnavailableError' };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onInterrupt);
  }
}

/** What a check is told as that needs another one to be well. */
export function skipped(text: string): Finding {
  return { status: 'skip', text };
}
