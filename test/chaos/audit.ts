/** Compares the callers' records, the workflows' histories and the upstream's journal. */
import type { FollowUpState } from '../../src/contract.js';
import type { UpstreamJournal } from './upstream-journal.js';
import type { CallerRecord } from './caller.js';
import type { QueueRunSummary, RunSummary } from './run-summary.js';
import type { Waiting } from '../../src/contract.js';

export interface Violation {
  workflowId: string;
  what: string;
}

export interface AuditResult {
  violations: Violation[];
  doubled: number;
  lost: number;
}

/** Ends at which follow-ups that still wait are given up. */
const ENDS_THAT_ABANDON = ['timedOut', 'abandoned', 'lost', 'Canceled', 'CreateRejected', 'UnknownOutcome'];

/** One job's side of the summary: its caller, and the runs of its workflow in order. */
export interface JobCase {
  caller: CallerRecord;
  runs: RunSummary[];
}

export function audit(cases: readonly JobCase[], journal: UpstreamJournal): AuditResult {
  const result: AuditResult = { violations: [], doubled: 0, lost: 0 };
  for (const job of cases) {
    const view = viewOf(job, journal, result);
    checkEnding(view);
    checkCreates(view);
    checkFollowUps(view);
    checkOrder(view);
    checkInDoubt(view);
  }
  return result;
}

interface View extends JobCase {
  result: AuditResult;
  created: string[];
  /** Prompts as delivered to the job that the workflow knows. */
  delivered: string[];
  /** All runs together, in the order queued. */
  states: Map<string, FollowUpState>;
  fail: (what: string) => void;
}

function viewOf(job: JobCase, journal: UpstreamJournal, result: AuditResult): View {
  const { plan, workflowId } = job.caller;
  const known = new Set(job.runs.map(({ jobId }) => jobId).filter((id) => id !== null));
  const states = new Map<string, FollowUpState>();
  for (const { followUps } of job.runs) {
    for (const { id, state } of followUps) {
      if (states.get(id) === 'abandoned') states.delete(id);
      if (!states.has(id)) states.set(id, state);
    }
  }
  return {
    ...job,
    result,
    created: journal.jobsOfPrompt.get(plan.prompt) ?? [],
    delivered: [...known].flatMap((id) => journal.messagesOfJob.get(id) ?? []),
    states,
    fail: (what) => result.violations.push({ workflowId, what }),
  };
}

function checkEnding({ caller, runs, fail }: View): void {
  if (!caller.isStarted) return fail('its caller never got it started');
  if (runs.length === 0) return fail('LOST: the start was confirmed, and there is no workflow');
  for (const { status, runId, bugs, waiting } of runs) {
    if (status === 'RUNNING') fail(`run ${runId} has not ended: ${whyItWaits(waiting)}`);
    else if (!['COMPLETED', 'FAILED', 'CANCELLED', 'CONTINUED_AS_NEW'].includes(status))
      fail(`run ${runId} is ${status}`);
    for (const bug of bugs) fail(`a workflow task failed: ${bug}`);
  }
  // The deadline of a short one may come before its link.
  const mayLackLink = !caller.plan.isLinkLate || caller.plan.isShort;
  for (const { ending, prLink, runId } of runs)
    if (ending === 'completed' && prLink === null && !mayLackLink) fail(`run ${runId} ended before its link was there`);
  const last = runs.at(-1)!;
  const allowed = ['completed', 'abandoned', 'CreateRejected', 'UnknownOutcome'];
  if (caller.plan.isShort) allowed.push('timedOut');
  if (caller.plan.cancelAfterMs !== null) allowed.push('Canceled');
  if (!allowed.includes(last.ending ?? '')) fail(`ended as ${last.ending}`);
  if (caller.ending === null) fail('its caller never learned how it ended');
  if (caller.ending === 'TemporalCallError')
    fail(`its caller’s wait did not outlive an outage of Temporal: ${caller.endingText}`);
}

function whyItWaits(waiting: Waiting | null): string {
  if (!waiting) return 'it says that it waits for nothing';
  const { for: what, since, position, reason } = waiting;
  const place = position === undefined ? '' : `, place ${position}`;
  return `it waits for ${what}${place} since ${since}${reason === undefined ? '' : `: ${reason}`}`;
}

/** A queue of requests fails no task, and ends by itself or by an operator. */
export function auditQueues(runs: readonly QueueRunSummary[]): Violation[] {
  const allowed = ['RUNNING', 'COMPLETED', 'CONTINUED_AS_NEW', 'TERMINATED'];
  return runs.flatMap(({ workflowId, runId, status, bugs }) => {
    const said = bugs.map((bug) => `a workflow task of the queue failed: ${bug}`);
    if (!allowed.includes(status)) said.push(`run ${runId} of the queue is ${status}`);
    return said.map((what) => ({ workflowId, what }));
  });
}

function checkCreates({ caller, runs, created, result, fail }: View): void {
  if (created.length > 1 && caller.plan.policy !== 'retry') {
    result.doubled += created.length - 1;
    fail(`DOUBLED: its prompt made ${created.length} jobs: ${created.join(', ')}`);
  }
  const known = runs.map(({ jobId }) => jobId).filter((id) => id !== null);
  for (const id of known) if (!created.includes(id)) fail(`knows job ${id}, which its prompt did not make`);
  const mayNotKnow =
    caller.plan.policy === 'retry' ||
    runs.some(
      ({ ending, inDoubtAtEnd }) => ending === 'UnknownOutcome' || ending === 'abandoned' || inDoubtAtEnd !== null,
    );
  if (created.some((id) => !known.includes(id)) && !mayNotKnow) {
    result.lost += 1;
    fail(`LOST: job ${created.join(', ')} exists, and the workflow knows ${known.join(', ') || 'none'}`);
  }
}

function checkFollowUps({ caller, runs, delivered, states, result, fail }: View): void {
  const { plan, accepted, answers } = caller;
  // At its deadline a run ends with the end that was polled last, whatever still waits to be sent.
  const endsThatAbandon = plan.isShort ? [...ENDS_THAT_ABANDON, 'completed'] : ENDS_THAT_ABANDON;
  const wasAbandoned = runs.some(({ ending }) => endsThatAbandon.includes(ending ?? ''));
  for (const id of accepted) {
    if (states.has(id) && (states.get(id) !== 'abandoned' || wasAbandoned)) continue;
    result.lost += 1;
    fail(`LOST: follow-up ${id} was taken and is ${states.get(id) ?? 'not there'}`);
  }
  for (const { id, prompt } of plan.followUps) {
    const times = delivered.filter((text) => text === prompt).length;
    const state = states.get(id);
    if (times > 1 && plan.policy !== 'retry') {
      result.doubled += times - 1;
      fail(`DOUBLED: follow-up ${id} was delivered ${times} times`);
    }
    if (state === 'sent' && times === 0) {
      result.lost += 1;
      fail(`LOST: follow-up ${id} is said to be sent and never arrived`);
    }
    if (times > 0 && state !== 'sent' && state !== 'unknown')
      fail(`follow-up ${id} arrived and is ${state ?? 'not known'}`);
    if (state === 'queued') fail(`follow-up ${id} still waits`);
    for (const answer of answers.get(id) ?? []) {
      const fits = answer === state || answer === 'queued' || answer === 'unknown' || answer === 'abandoned';
      if (!fits) fail(`follow-up ${id} was answered ${answer} and is ${state ?? 'not known'}`);
    }
  }
}

/** Delivered in the order queued, and queued in the order in which the caller, who waits for each, sent them. */
function checkOrder({ caller, delivered, states, fail }: View): void {
  const { plan, accepted } = caller;
  const idOf = new Map(plan.followUps.map(({ id, prompt }) => [prompt, id]));
  const arrived = [...new Set(delivered.map((prompt) => idOf.get(prompt) ?? `(foreign) ${prompt}`))];
  const queued = [...states.keys()];
  const inQueue = queued.filter((id) => arrived.includes(id));
  if (inQueue.join() !== arrived.join()) fail(`order: queued ${inQueue.join()}, delivered ${arrived.join()}`);
  const wanted = accepted.filter((id) => arrived.includes(id));
  const got = arrived.filter((id) => accepted.includes(id));
  if (wanted.join() !== got.join()) fail(`order: accepted ${wanted.join()}, delivered ${got.join()}`);
}

/** Under policy `ask` each write in doubt must have been shown; other policies end or repeat it. */
function checkInDoubt({ caller, runs, fail }: View): void {
  if (caller.plan.policy !== 'ask') return;
  for (const { runId, inDoubt, shown, inDoubtAtEnd } of runs) {
    // A cancellation may come first; the closed run's state shows it then.
    const visible = shown + (inDoubtAtEnd === null ? 0 : 1);
    if (visible < inDoubt.length) fail(`run ${runId}: ${inDoubt.length} writes were in doubt, ${visible} were shown`);
  }
}
