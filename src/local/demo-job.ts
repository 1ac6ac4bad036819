/** The job that `npm start` shows: how the sandbox plays the job, and what is printed. */
import { agentJobWorkflowId, type JobState } from '../contract.js';
import type { JobScript } from '../sandbox/jobs.js';
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
const PROMPT = 'Add a page about pricing to the site';
const FOLLOW_UP = { id: 'demo-follow-up', prompt: 'Mention the free plan, too' };

/** Starts the demo job, or joins the one that an earlier start began if that still runs. */
export async function startDemoJob(jobs: AgentJobs): Promise<{ job: JobHandle; isResumed: boolean }> {
  const earlier = await runningDemo(jobs);
  const key = earlier ?? `${KEY_START}${new Date().toISOString().slice(0, 19).replaceAll(':', '-')}`;
  return { job: await jobs.start({ projectId: PROJECT, prompt: PROMPT, key }), isResumed: earlier !== undefined };
}

/** The key of a demo job that runs, if Temporal knows one. */
async function runningDemo({ client }: AgentJobs): Promise<string | undefined> {
  const start = agentJobWorkflowId(PROJECT, KEY_START);
  const query = `WorkflowId STARTS_WITH '${start}' AND ExecutionStatus = 'Running'`;
  for await (const { workflowId } of client.workflow.list({ query })) return KEY_START + workflowId.slice(start.length);
  return undefined;
}

/** Prints each change of the job until its end, and sends the follow-up once there is a pull request. */
export async function followDemoJob(
  job: JobHandle,
  printEntry: (label: string, text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const shown = new Map<string, string>();
  for await (const state of job.watch({ signal })) {
    for (const [label, text] of stateEntries(state)) {
      if (shown.get(label) !== text) printEntry(label, text);
      shown.set(label, text);
    }
    if (state.job?.prLink && state.followUps.length === 0 && state.phase === 'watching') {
      await job.followUp(FOLLOW_UP.prompt, { id: FOLLOW_UP.id });
    }
  }
}

/** The lines that show a state, by label. */
function stateEntries({ phase, jobId, job, followUps, unknown }: JobState): [string, string][] {
  const lines: [string, string][] = [];
  if (jobId !== null) lines.push(['Job', `${jobId} was created in project ${PROJECT}`]);
  if (job !== null) lines.push(['Status', job.status]);
  if (job?.prLink) lines.push(['PR opened', job.prLink]);
  for (const { state, error } of followUps) {
    lines.push(['Follow-up', `"${FOLLOW_UP.prompt}" ${state}${error ? `: ${error}` : ''}`]);
  }
  if (phase === 'needsAttention' && unknown)
    lines.push(['Attention', `the ${unknown.kind} is in doubt: ${unknown.reason}`]);
  return lines;
}
