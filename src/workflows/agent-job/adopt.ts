/**
 * `adopt` believes no id that was only typed: the job is read first, by whatever means the decision came. What is read
 * is judged in activities/agent-job/read-job.ts.
 */
import {
  ActivityCancellationType,
  ActivityFailure,
  CancellationScope,
  condition,
  isCancellation,
  proxyActivities,
} from '@temporalio/workflow';
import type { JobActivities, ReadJobInput, ReadJobResult } from '../../activities/index.js';
import type { ResolveUnknownInput } from '../../contract.js';
import { InvalidInputError } from '../../contract/input-checks.js';
import { STRANGE_RESULT } from './activity-results.js';
import type { JobRun } from './job-run.js';

const { readJob } = proxyActivities<JobActivities>({
  // One request takes at most 20 seconds.
  startToCloseTimeout: '25 seconds',
  // Whoever decides waits for it.
  scheduleToCloseTimeout: '1 minute',
  retry: { initialInterval: '1 second', backoffCoefficient: 2 },
  cancellationType: ActivityCancellationType.TRY_CANCEL,
  priority: { priorityKey: 1 },
  summary: 'Read the job to adopt',
});

/** How many decisions may wait for such a read at once: `retry` and `abandon` must always get through. */
const MAX_READS = 3;

/** A decision to adopt a job. */
type Adoption = Extract<ResolveUnknownInput, { action: 'adopt' }>;

export class Adoptions {
  readonly #run: JobRun;
  #reading = 0;

  constructor(run: JobRun) {
    this.#run = run;
  }

  get isFull(): boolean {
    return this.#reading >= MAX_READS;
  }

  /** Reads the job, then settles the write in doubt with it; throws InvalidInputError where it may not. */
  async settle(resolution: Adoption): Promise<void> {
    const run = this.#run;
    const { inDoubt } = run;
    // Somebody else may decide meanwhile, the time to decide may end, or the whole run.
    const isMoot = () => run.inDoubt !== inDoubt || run.ending() !== null;
    this.#reading += 1;
    // A run that Temporal began anew may adopt what an earlier one has created.
    const firstSentAt = run.isRepeated ? null : (run.write?.mayHaveArrivedSince ?? run.startedAt);
    const input = { projectId: run.spec.projectId, jobId: resolution.jobId, firstSentAt };
    const problem = await problemWith(input, isMoot).finally(() => (this.#reading -= 1));
    if (isMoot()) {
      throw new InvalidInputError(
        'action',
        'has nothing to settle any more: it was settled meanwhile, or the job ended',
      );
    }
    if (problem && (problem.isFinal || resolution.force !== true)) throw new InvalidInputError('jobId', problem.text);
    run.resolveUnknown(resolution);
  }
}

interface Problem {
  text: string;
  /** `force` does not help. */
  isFinal: boolean;
}

async function problemWith(input: ReadJobInput, isMoot: () => boolean): Promise<Problem | null> {
  const result = await read(input, isMoot);
  switch (result.kind) {
    case 'found':
      return null;
    case 'notFound':
      return { text: `must name a job of project ${input.projectId}: the upstream answered 404`, isFinal: true };
    case 'doubtful':
      return { text: `${result.reason}; nothing was settled: look again, or adopt it with force`, isFinal: false };
    default: {
      const remedy = 'nothing was settled: try again, or adopt it unread with force';
      return { text: `could not be read (${result.reason}); ${remedy}`, isFinal: false };
    }
  }
}

async function read(input: ReadJobInput, isMoot: () => boolean): Promise<ReadJobResult> {
  const scope = new CancellationScope();
  try {
    const reading = scope.run(() => readJob(input));
    await Promise.race([reading, CancellationScope.nonCancellable(() => condition(isMoot))]);
    scope.cancel();
    return known(await reading);
  } catch (error) {
    if (isCancellation(error)) return { kind: 'failed', reason: 'the read was cancelled' };
    if (!(error instanceof ActivityFailure)) throw error;
    return { kind: 'failed', reason: error.cause?.message ?? error.message };
  }
}

/** A result that this release does not know proves nothing. */
function known(result: unknown): ReadJobResult {
  const { kind, reason } = (result ?? {}) as { kind?: unknown; reason?: unknown };
  if (kind === 'found' || kind === 'notFound') return { kind };
  if (kind === 'doubtful' && typeof reason === 'string') return { kind, reason };
  return { kind: 'failed', reason: typeof reason === 'string' ? reason : STRANGE_RESULT };
}
