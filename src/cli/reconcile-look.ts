/** Compares what a log tells of a job with what Temporal knows of it. */
import type { JobState } from '../contract.js';
import type { JobTrace } from './reconcile-log.js';
import type { Session } from './session.js';

/** What the comparison says of one job or one of its follow-ups; `text` says it to a person. */
export interface Finding {
  workflowId: string;
  projectId: string;
  jobId: string | null;
  followUpId: string | null;
  /**
   * `adopt`, `delivered`, `attach`: the log proves it, and `resolve` does it. `waits`: the write has not asked yet.
   * `forgotten`: the log shows a follow-up that Temporal does not know; a repetition of it asks. `canceled`: it was,
   * and is open again. `inDoubt`: the create has a job, or may have one, that no workflow watches. `twoJobs`: the log
   * names another job than Temporal, or two. `known`: all is well.
   */
  finding: 'known' | 'adopt' | 'delivered' | 'attach' | 'waits' | 'forgotten' | 'canceled' | 'inDoubt' | 'twoJobs';
  text: string;
  /** Of the write that asks. */
  since?: string;
  /** Of `attach`: where the workflow ran, and the follow-ups that must not be sent again. */
  taskQueue?: string;
  usedFollowUpIds?: string[];
}

/** What Temporal lacks of this job; one `known` where it lacks nothing. */
export async function lookAt({ jobs, signal }: Session, trace: JobTrace): Promise<Finding[]> {
  const state = await readState(jobs.handle(trace.workflowId).state({ signal }));
  if (typeof state === 'string') return [toFinding(trace, 'waits', state)];
  const findings = state === null ? findingsOfForgotten(trace, jobs.taskQueue) : findingsOfKnown(trace, state);
  return findings.length > 0 ? findings : [toFinding(trace, 'known', 'Temporal knows all that the log tells')];
}

/** Null where Temporal knows no such workflow; a text where its code fails again and again. */
async function readState(state: Promise<JobState>): Promise<JobState | string | null> {
  try {
    return await state;
  } catch (error) {
    // By name: the client's classes are loaded only when a command connects.
    const { name, message } = error as Error;
    if (name === 'JobNotFoundError') return null;
    if (name === 'WorkflowTaskFailingError') return message;
    throw error;
  }
}

function findingsOfForgotten(trace: JobTrace, usualTaskQueue: string): Finding[] {
  const [jobId, another] = trace.jobIds;
  if (another !== undefined) return [twoJobs(trace)];
  if (jobId !== undefined) {
    const { taken, doubtful } = trace;
    const taskQueue = trace.taskQueue ?? usualTaskQueue;
    const usedFollowUpIds = [...new Set([...taken, ...doubtful])];
    return [{ ...toFinding(trace, 'attach', 'Temporal knows no such job'), jobId, taskQueue, usedFollowUpIds }];
  }
  if (!trace.isCreateDoubtful) return [];
  const text = 'Temporal knows no such job, and its create was in doubt: look upstream, and start it with --job-id';
  return [toFinding(trace, 'inDoubt', text)];
}

function findingsOfKnown(trace: JobTrace, state: JobState): Finding[] {
  const known = new Set([...trace.jobIds, ...(state.jobId === null ? [] : [state.jobId])]);
  if (known.size > 1) return [twoJobs(trace, state.jobId)];
  const [jobId = null] = known;
  if (state.jobId === null && jobId !== null) return [{ ...findingOfCreate(trace, state), jobId }];
  const followUps = new Set([...trace.taken, ...trace.doubtful]);
  return [...findingsOfEnd(trace, state), ...[...followUps].flatMap((id) => findingOfFollowUp(trace, state, id) ?? [])];
}

function findingsOfEnd(trace: JobTrace, { jobId, outcome }: JobState): Finding[] {
  if (!trace.isCanceled || outcome !== null) return [];
  return [{ ...toFinding(trace, 'canceled', 'the job was cancelled, and is open again: cancel it again'), jobId }];
}

function findingOfCreate(trace: JobTrace, { unknown, outcome }: JobState): Finding {
  if (unknown?.kind === 'create') {
    return { ...toFinding(trace, 'adopt', 'the create is in doubt, and the log names its job'), since: unknown.since };
  }
  if (outcome === null) return toFinding(trace, 'waits', 'the create has not asked yet, and the log names its job');
  const text = `the workflow has ended (${outcome}) without the job that the log names: watch it with --job-id`;
  return toFinding(trace, 'inDoubt', text);
}

function findingOfFollowUp(trace: JobTrace, state: JobState, id: string): Finding | null {
  const finding = (kind: Finding['finding'], text: string): Finding => {
    return { ...toFinding(trace, kind, text), jobId: state.jobId, followUpId: id };
  };
  const isTaken = trace.taken.has(id);
  if (isTaken && state.unknown?.followUpId === id) {
    return { ...finding('delivered', 'the follow-up is in doubt, and the log shows it'), since: state.unknown.since };
  }
  const fate = state.followUps.find((followUp) => followUp.id === id)?.state;
  if (fate === 'queued' && isTaken) return finding('waits', 'the follow-up has not asked yet, and the log shows it');
  const isUsed = (fate !== undefined && fate !== 'abandoned') || state.usedFollowUpIds.includes(id);
  if (isUsed) return null;
  return finding('forgotten', `Temporal does not know this follow-up, which ${isTaken ? 'was' : 'may have been'} sent`);
}

function twoJobs(trace: JobTrace, known: string | null = null): Finding {
  const jobs = [...new Set([...(known === null ? [] : [known]), ...trace.jobIds])];
  return { ...toFinding(trace, 'twoJobs', `there is more than one job: ${jobs.join(', ')}`), jobId: known };
}

function toFinding({ workflowId, projectId }: JobTrace, finding: Finding['finding'], text: string): Finding {
  return { workflowId, projectId, jobId: null, followUpId: null, finding, text };
}

/** Whether the log proves what is to be done. */
export function isProven({ finding }: Finding): boolean {
  return finding === 'adopt' || finding === 'delivered' || finding === 'attach';
}
