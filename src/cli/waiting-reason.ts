import { setTimeout as delay } from 'node:timers/promises';
import type { Waiting } from '../contract.js';
import type { JobHandle } from '../starter.js';
import { printToStderr } from './session.js';
import { printable } from './text.js';

/** A shorter wait is a job's normal life. */
const FIRST_POLL_MS = 5_000;
const POLL_INTERVAL_MS = 20_000;

/** The reasons that may last until somebody acts, with what to do; the others are a job's normal life. */
const LASTING_REASONS: Partial<Record<Waiting['for'], { for: string; remedy?: string }>> = {
  key: {
    for: 'its key',
    remedy: 'give the worker a key that the upstream takes (ADMIN_API_KEY, ADMIN_API_KEY_FILE or PROJECT_KEYS_FILE)',
  },
  person: { for: 'a person', remedy: '"npx agent-jobs attention" shows what can be done' },
  rateLimit: { for: 'the upstream’s rate limit, and goes on by itself' },
  upstream: {
    for: 'the upstream, which is tried again and again',
    remedy: 'check UPSTREAM_BASE_URL of the worker where it should answer',
  },
};
/** The errors that are printed as a reason. A busy worker answers later: its error is not. */
const PRINTED_ERRORS: readonly string[] = ['NoWorkerError', 'WorkflowTaskFailingError', 'TemporalUnavailableError'];

/** Prints what a job waits for, each reason once, until the signal: without it a stuck job looks like a working one. */
export async function printWaitingReasons(job: JobHandle, signal: AbortSignal, onLine = printToStderr): Promise<void> {
  let printed = '';
  for (let pause = FIRST_POLL_MS; ; pause = POLL_INTERVAL_MS) {
    await delay(pause, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    const reason = await job.state({ signal }).then(
      ({ waiting }) => formatWaiting(waiting),
      (error: Error) => (PRINTED_ERRORS.includes(error.name) ? error.message : ''),
    );
    if (!signal.aborted && reason !== '' && reason !== printed) onLine(`agent-jobs: still waiting: ${reason}`);
    printed = reason;
  }
}

/** What somebody may do about a wait; undefined where it needs nobody, or an older worker does not tell. */
export function remedyFor(waiting: Waiting | null | undefined): string | undefined {
  return waiting ? LASTING_REASONS[waiting.for]?.remedy : undefined;
}

function formatWaiting(waiting: Waiting | null | undefined): string {
  const lasting = waiting && LASTING_REASONS[waiting.for];
  if (!lasting) return '';
  const reason = waiting.reason === undefined ? '' : ` (${printable(waiting.reason)})`;
  return `the job waits for ${[lasting.for, remedyFor(waiting)].filter(Boolean).join('; ')}${reason}`;
}
