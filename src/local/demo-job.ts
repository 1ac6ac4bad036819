import { setTimeout as delay } from 'node:timers/promises';
import { agentJobWorkflowId, type JobState } from '../contract.js';
import type { JobScript } from '../sandbox/job-life.js';
import type { AgentJobs, JobHandle } from '../starter.js';

/** The sandbox's jobs open a pull request after some reads and end later; a follow-up makes them active again. */
export const DEMO_SCRIPT: JobScript = {
  steps: [
    { status: 'active' },
    { status: 'active', prLink: true, afterMs: 4_000 },
    { status: 'completed', prLink: true, afterMs: 8_000, afterReads: 3 },
  ],
  followUp: [
    { status: 'active', prLink: true },
    { status: 'completed', prLink: true, afterMs: 5_000, afterReads: 2 },
  ],
};

const PROJECT = 'demo';
const KEY_START = 'demo-';
const KEY = /^demo-\d{4}-\d\d-\d\dT[\d-]+$/;
const PROMPT = 'Add a page about pricing to the site';
const FOLLOW_UP = { id: 'demo-follow-up', prompt: 'Mention the free plan, too' };
const POLL_INTERVAL_MS = 400;

/** The demo job, started now or by an earlier start. */
export interface DemoJob {
  job: JobHandle;
  /** An earlier start began it. */
  isResumed: boolean;
}

/** Starts the demo job, or resumes the one that an earlier start began where that still runs. */
export async function startDemoJob(jobs: AgentJobs): Promise<DemoJob> {
  const earlier = await runningDemo(jobs);
  const key = earlier ?? `${KEY_START}${new Date().toISOString().slice(0, 19).replaceAll(':', '-')}`;
  // The same key and input: of a running job this is no second one.
  return { job: await jobs.start({ projectId: PROJECT, prompt: PROMPT, key }), isResumed: earlier !== undefined };
}

/** The key of a demo job that runs, where Temporal tells of one. */
async function runningDemo({ client }: AgentJobs): Promise<string | undefined> {
  const query = `WorkflowId STARTS_WITH '${agentJobWorkflowId(PROJECT, KEY_START)}' AND ExecutionStatus = 'Running'`;
  try {
    for await (const { workflowId } of client.workflow.list({ query })) {
      const key = decodeURIComponent(workflowId.slice(agentJobWorkflowId(PROJECT, '').length));
      if (KEY.test(key)) return key;
    }
  } catch {
    // Then another one starts, in the sandbox.
  }
  return undefined;
}

/** Prints each change of the job until its end, and sends the follow-up once there is a pull request. */
export async function followDemoJob(
  job: JobHandle,
  printEntry: (label: string, text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const shown = new Map<string, string>();
  for (;;) {
    const state = await job.state().catch(() => undefined); // no worker for a moment
    for (const [label, text] of state === undefined ? [] : stateEntries(state)) {
      if (shown.get(label) !== text) printEntry(label, text);
      shown.set(label, text);
    }
    if (state?.phase === 'done') return;
    if (state?.job?.prLink && state.followUps.length === 0 && state.phase === 'watching') {
      await job.followUp(FOLLOW_UP.prompt, { id: FOLLOW_UP.id });
    }
    await delay(POLL_INTERVAL_MS, undefined, { signal });
  }
}

/** The lines that show a state, by label. */
function stateEntries({ phase, jobId, job, followUps, unknown }: JobState): [string, string][] {
  const lines: [string, string][] = [];
  if (jobId !== null) lines.push(['Job', `${jobId} was created in project ${PROJECT}`]);
  if (job !== null) lines.push(['Status', job.status]);
  if (job?.prLink) lines.push(['PR opened', job.prLink]);
  for (const { id, state, error } of followUps) {
    if (id === FOLLOW_UP.id) lines.push(['Follow-up', `"${FOLLOW_UP.prompt}" ${state}${error ? `: ${error}` : ''}`]);
  }
  if (phase === 'needsAttention' && unknown)
    lines.push(['Attention', `the ${unknown.kind} is in doubt: ${unknown.reason}`]);
  return lines;
}
