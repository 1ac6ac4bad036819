/** Jobs that wait for a person to settle a write in doubt. Jobs whose workflow task fails: stuck-jobs.ts. */
import type { Decision, InDoubtWrite } from '../../contract.js';
import { concurrently } from '../concurrently.js';
import { CALL_TIMEOUT_MS, type CallOptions } from '../temporal-call.js';
import { jobUrl, type WebUi } from '../web-ui.js';
import type { JobHandle } from './handle.js';
import type { JobFilter, JobSummary } from './job-summary.js';

/** A job that waits for a person. If its state could not be read, `unknown` is null and `problem` says why. */
export interface AttentionItem {
  workflowId: string;
  /** As in a list of jobs. */
  title: string | null;
  /** The page of the run in the web UI that shows the doubt; null where the web UI is not known. */
  url: string | null;
  projectId: string | null;
  jobId: string | null;
  /** The write in doubt, to be settled by `resolve`. */
  unknown: InDoubtWrite | null;
  /** What people decided about this job's writes before. */
  decisions: Decision[];
  problem?: string;
}

/** The client that lists and asks. */
interface Jobs {
  readonly webUi: WebUi | null;
  list(filter: JobFilter, options: CallOptions): AsyncIterable<JobSummary>;
  handle(workflowId: string): Pick<JobHandle, 'state'>;
}

/** Lists every running job in `needsAttention`, with its write in doubt. */
export async function* listAttention(
  jobs: Jobs,
  options: CallOptions = {},
): AsyncGenerator<AttentionItem, void, undefined> {
  const listed = jobs.list({ phase: 'needsAttention', isRunning: true }, options);
  for await (const item of concurrently(listed, {}, (job) => readInDoubtWrite(jobs, job, options))) {
    // A job whose write was settled after the list was made has neither.
    if (item.unknown !== null || item.problem !== undefined) yield item;
  }
}

async function readInDoubtWrite(jobs: Jobs, job: JobSummary, options: CallOptions): Promise<AttentionItem> {
  const { workflowId, title, projectId, jobId } = job;
  const handle = jobs.handle(workflowId);
  const known = { workflowId, title, url: jobs.webUi && jobUrl(jobs.webUi, job), projectId, jobId };
  try {
    // The default limit is longer: with it, jobs whose workers are gone would hold up all others.
    const state = await handle.state({ ...options, timeoutMs: options.timeoutMs ?? CALL_TIMEOUT_MS });
    const { unknown, decisions } = state;
    return { ...known, projectId: state.projectId, jobId: state.jobId, unknown, decisions };
  } catch (error) {
    options.signal?.throwIfAborted();
    return { ...known, unknown: null, decisions: [], problem: (error as Error).message };
  }
}
