import { setTimeout as delay } from 'node:timers/promises';
import type { Waiting } from '../contract.js';
import type { JobHandle } from '../starter.js';
import { printToStderr } from './session.js';
import { printable } from './text.js';

/** What holds a job for a moment is no news. */
const FIRST_LOOK_MS = 5_000;
const LOOK_EVERY_MS = 20_000;

/** What to say of each reason that may last until somebody acts; the others are a job's normal life. */
const HELD_BY: Partial<Record<Waiting['for'], string>> = {
  key: 'its key; give the worker one that the upstream takes (ADMIN_API_KEY, ADMIN_API_KEY_FILE or PROJECT_KEYS_FILE)',
  person: 'a person; "npx agent-jobs attention" shows what can be done',
  rateLimit: 'the upstream’s rate limit, and goes on by itself',
  upstream:
    'the upstream, which is tried again and again; check UPSTREAM_BASE_URL of the worker where it should answer',
};
/** A busy worker answers later. */
const HELD_WITHOUT_ANSWER: readonly string[] = [
  'NoWorkerError',
  'WorkflowTaskFailingError',
  'TemporalUnavailableError',
];

/** Tells a person who waits for a job what holds it, each reason once, until the signal: silence would look like work. */
export async function printWaitingReasons(job: JobHandle, signal: AbortSignal, say = printToStderr): Promise<void> {
  let told = '';
  for (let pause = FIRST_LOOK_MS; ; pause = LOOK_EVERY_MS) {
    await delay(pause, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    const news = await job.state({ signal }).then(
      ({ waiting }) => describeWaiting(waiting),
      (error: Error) => (HELD_WITHOUT_ANSWER.includes(error.name) ? error.message : ''),
    );
    if (!signal.aborted && news !== '' && news !== told) say(`agent-jobs: still waiting: ${news}`);
    told = news;
  }
}

function describeWaiting(waiting: Waiting | null | undefined): string {
  const heldBy = waiting && HELD_BY[waiting.for];
  if (!heldBy) return '';
  const reason = waiting.reason === undefined ? '' : ` (${printable(waiting.reason)})`;
  return `the job waits for ${heldBy}${reason}`;
}
