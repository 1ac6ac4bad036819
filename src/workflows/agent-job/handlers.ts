/**
 * Decides what a message to `agentJob` does: signals, updates and the query. Handlers change the run synchronously;
 * only updates wait, for their reply.
 */
import {
  ActivityCancellationType,
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  condition,
  currentUpdateInfo,
  isCancellation,
  log,
  proxyActivities,
  setHandler,
  uuid4,
} from '@temporalio/workflow';
import type { JobActivities } from '../../activities/agent-job/job-activities.js';
import type { ReadJobInput, ReadJobResult } from '../../activities/agent-job/read-job.js';
import {
  FAILURE,
  followUpSignal,
  jobStateQuery,
  pollNowSignal,
  requestTurnSignal,
  resolveUnknownUpdate,
  sendFollowUpUpdate,
  type AdoptDecision,
  type FollowUpAnswer,
  type FollowUpInput,
  type JobState,
  type ResolveUnknownInput,
  type Turn,
} from '../../contract.js';
import { asInputFailure, validated } from '../../agent-job/closed-run.js';
import { FOLLOW_UP_ID } from '../../agent-job/fields.js';
import { FULL_QUEUE, followUpConflictText, parseFollowUp, parseResolution } from '../../agent-job/input.js';
import type { GivenFollowUp } from '../../agent-job/input.js';
import { readTurn } from '../../request-queue/messages.js';
import { InvalidInputError } from '../../contract/errors.js';
import { isGiven } from '../../contract/kinds.js';
import { readReadResult } from './activity-results.js';
import type { Dashboard } from './dashboard.js';
import type { JobRun } from './job-run.js';
import { jobState } from './job-state.js';
import { giveBack } from './send.js';
import { canUseTurn, operationOf } from './write.js';

/** Temporal allows ten updates in flight, and `resolveUnknown` must always get through. */
const MAX_WAITING_UPDATES = 5;
/** Decisions that may wait at once until their job was read: `retry` and `abandon` must always get through. */
const MAX_ADOPTIONS = 3;

const { readJob } = proxyActivities<JobActivities>({
  // One request takes at most 20 seconds.
  startToCloseTimeout: '25 seconds',
  // The person who decides waits for it.
  scheduleToCloseTimeout: '1 minute',
  retry: { initialInterval: '1 second', backoffCoefficient: 2 },
  cancellationType: ActivityCancellationType.TRY_CANCEL,
  priority: { priorityKey: 1 },
  summary: 'Read the job to adopt',
});

/** Registers every handler; to be called before anything else, so that no message meets a run without them. */
export function handleMessages(run: JobRun, dashboard: Dashboard): void {
  setHandler(jobStateQuery, () => jobState(run));
  setHandler(pollNowSignal, () => run.pollNow());
  // Drawn once and first: another release may draw other random numbers later, and names that callers know stay. The
  // time is that of the signal: a run that is reset or restored meets other signals.
  const name = uuid4();
  let unnamed = 0;
  setHandler(followUpSignal, (input) => {
    takeSignal(run, input, () => `${name}-${Date.now()}-${(unnamed += 1)}`);
    dashboard.refreshDetails();
  });
  setHandler(requestTurnSignal, (given) => {
    const turn = readTurn(given);
    if (turn && !takeTurn(run, turn)) giveBack(turn, run.spec.projectId);
    dashboard.refreshDetails();
  });
  const updates = { waiting: 0 };
  setHandler(sendFollowUpUpdate, (input) => takeUpdate(run, dashboard, updates, input), {
    validator: (input) => validated(() => checkUpdate(run, input)),
  });
  const adoptions = { reading: 0 };
  setHandler(resolveUnknownUpdate, (input) => decide(run, adoptions, parseResolution(input)), {
    validator: (input) => validated(() => checkDecision(run, adoptions, input)),
  });
}

/** False if no write here waits for it. */
function takeTurn(run: JobRun, turn: Turn): boolean {
  const { write } = run;
  // The queue of the other kind of write may have given it.
  if (!write || turn.operation !== operationOf(write) || !canUseTurn(write)) return false;
  run.apply({ kind: 'turn', turn });
  return true;
}

function takeSignal(run: JobRun, input: FollowUpInput, newId: () => string): void {
  try {
    const followUp = parseFollowUp(input);
    queue(run, followUp.id ?? newId(), followUp);
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    log.warn('A followUp signal was ignored', { reason: error.message });
  }
}

/** Queues a follow-up, once. */
function queue(run: JobRun, id: string, { prompt, priority }: GivenFollowUp): void {
  if (run.followUps.isConflict(id, prompt)) {
    log.warn('A followUp signal was ignored', { reason: followUpConflictText(id) });
  }
  if (run.followUps.isUsed(id)) return;
  if (run.followUps.hasRoomFor(id, prompt)) {
    run.followUps.add({ id, prompt, askedAt: Date.now(), ...(priority !== null && { priority }) });
  } else run.followUps.overflow(id);
}

function checkUpdate(run: JobRun, input: FollowUpInput): void {
  const followUp = parseFollowUp(input);
  const { prompt } = followUp;
  const id = updateIdOf(followUp);
  if (run.followUps.isConflict(id, prompt)) {
    throw ApplicationFailure.nonRetryable(followUpConflictText(id), FAILURE.followUpConflict);
  }
  if (run.followUps.isUsed(id)) return;
  if (run.isClosing && run.ending()) throw new InvalidInputError('job', 'has ended; start it again to send follow-ups');
  if (!run.followUps.hasRoomFor(id, prompt)) {
    throw new InvalidInputError('follow-up', FULL_QUEUE);
  }
}

function updateIdOf({ id }: GivenFollowUp): string {
  return id ?? FOLLOW_UP_ID.check(currentUpdateInfo()?.id, 'update id');
}

async function takeUpdate(
  run: JobRun,
  dashboard: Dashboard,
  updates: { waiting: number },
  input: FollowUpInput,
): Promise<FollowUpAnswer> {
  // The validator, which a replay does not ask, lets nothing invalid through.
  const followUp = parseFollowUp(input);
  const id = updateIdOf(followUp);
  queue(run, id, followUp);
  dashboard.refreshDetails();
  const { releases } = run;
  const isAnswered = () => run.followUps.stateOf(id) !== 'queued' || run.releases !== releases || run.isClosing;
  if (!run.inDoubt && updates.waiting < MAX_WAITING_UPDATES && !isAnswered()) {
    updates.waiting += 1;
    // A cancellation waits for the write in flight, and so does its caller.
    await CancellationScope.nonCancellable(() => condition(isAnswered));
    updates.waiting -= 1;
  }
  return { id, state: run.followUps.stateOf(id) ?? 'abandoned', job: run.polls.known.job };
}

function checkDecision(run: JobRun, adoptions: { reading: number }, input: ResolveUnknownInput): void {
  const { action, since, followUpId } = parseResolution(input);
  const { inDoubt } = run;
  if (!inDoubt) throw new InvalidInputError('action', 'has nothing to resolve: no write of this job is unknown');
  const { kind } = inDoubt;
  const fits = { adopt: 'create', delivered: 'followUp', retry: kind, abandon: kind }[action];
  const present = inDoubt.followUpId ?? 'the create';
  const problems: [isWrong: boolean, field: string, text: string][] = [
    // It is shown as still unknown: it was not resolved in time.
    [!run.write, 'action', 'has nothing to resolve any more: the job has ended'],
    [
      fits !== kind,
      'action',
      `${action} is for a ${action === 'adopt' ? 'create' : 'follow-up'}; unknown is a ${kind}`,
    ],
    [
      (since ?? inDoubt.since) !== inDoubt.since,
      'since',
      `names another unknown; the present one is of ${inDoubt.since}`,
    ],
    [
      action === 'adopt' && adoptions.reading >= MAX_ADOPTIONS,
      'action',
      'adopt waits: the jobs that others want to adopt are being read',
    ],
    [
      isGiven(followUpId) && followUpId !== inDoubt.followUpId,
      'followUpId',
      `names another unknown; the present one is ${present}`,
    ],
  ];
  for (const [isWrong, field, text] of problems) if (isWrong) throw new InvalidInputError(field, text);
}

/** Every decision but `adopt` is carried out at once. */
function decide(
  run: JobRun,
  adoptions: { reading: number },
  resolution: ResolveUnknownInput,
): JobState | Promise<JobState> {
  if (resolution.action !== 'adopt') {
    run.resolveUnknown(resolution);
    return jobState(run);
  }
  adoptions.reading += 1;
  const adopted = adopt(run, resolution).finally(() => (adoptions.reading -= 1));
  return adopted.then(
    () => jobState(run),
    (error: unknown) => Promise.reject(asInputFailure(error)),
  );
}

/**
 * `adopt` believes no id that was only typed: it reads the job first, then resolves the write in doubt with it. Throws
 * InvalidInputError if it may not. activities/agent-job/read-job.ts judges what is read.
 */
async function adopt(run: JobRun, resolution: AdoptDecision): Promise<void> {
  const { inDoubt } = run;
  // Another person may decide meanwhile, the time to decide may end, or the whole run.
  const isMoot = () => run.inDoubt !== inDoubt || run.ending() !== null;
  // A run that Temporal began anew may adopt what an earlier one has created.
  const firstSentAt = run.isRepeated ? null : (run.write?.mayHaveArrivedSince ?? run.startedAt);
  const input = { projectId: run.spec.projectId, jobId: resolution.jobId, firstSentAt };
  const result = await readToAdopt(input, isMoot);
  if (isMoot()) {
    throw new InvalidInputError(
      'action',
      'has nothing to resolve any more: it was resolved meanwhile, or the job ended',
    );
  }
  const isSure = result.kind === 'notFound' || resolution.force !== true;
  if (result.kind !== 'found' && isSure) throw new InvalidInputError('jobId', problemOf(result, input));
  run.resolveUnknown(resolution);
}

function problemOf(result: Exclude<ReadJobResult, { kind: 'found' }>, { projectId }: ReadJobInput): string {
  if (result.kind === 'notFound') return `must name a job of project ${projectId}: the upstream answered 404`;
  if (result.kind === 'doubtful')
    return `${result.reason}; nothing was resolved: read it again, or adopt it with force`;
  return `could not be read (${result.reason}); nothing was resolved: try again, or adopt it unread with force`;
}

async function readToAdopt(input: ReadJobInput, isMoot: () => boolean): Promise<ReadJobResult> {
  const scope = new CancellationScope();
  try {
    const reading = scope.run(() => readJob(input));
    await Promise.race([reading, CancellationScope.nonCancellable(() => condition(isMoot))]);
    scope.cancel();
    return readReadResult(await reading);
  } catch (error) {
    if (isCancellation(error)) return { kind: 'failed', reason: 'the read was cancelled' };
    if (!(error instanceof ActivityFailure)) throw error;
    return { kind: 'failed', reason: error.cause?.message ?? error.message };
  }
}
