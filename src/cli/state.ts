/** `state`: what a job is doing, or did, as its workflow tells. */
import type { Command } from 'commander';
import type { JobMetadata, JobState } from '../contract.js';
import type { JobHandle } from '../starter.js';
import { formatWaiting, remedyFor } from './follow.js';
import { addJobName, findJob, type JobNameFlags, readJobName } from './targets.js';
import { lastDecisionField, resolveCommands } from './in-doubt.js';
import { type GlobalOptions, printAnswer, withSession } from './session.js';
import { fields, readableTime } from './table.js';

interface StateFlags extends JobNameFlags {
  json?: boolean;
}

/** Adds `state`. */
export function addState(program: Command): void {
  const command = addJobName(program.command('state').description('show what a job is doing, or did'))
    .option('--json', 'print JSON')
    .action((given: string | undefined, { json, ...flags }: StateFlags) => {
      const name = readJobName({ given, ...flags });
      return withSession(command, async (session) => {
        const { globals, signal } = session;
        const job = await findJob(session, name);
        const jobState = await job.state({ signal });
        const { workflowId, url } = job;
        printAnswer(json, { workflowId, url, ...jobState }, () => formatState(job, jobState, globals));
      });
    });
}

function formatState({ workflowId, url }: JobHandle, state: JobState, globals: GlobalOptions): string {
  const { job, unknown } = state;
  return fields([
    ['Workflow', workflowId],
    ['Web UI', url],
    ['Phase', state.phase],
    ['Outcome', state.outcome],
    ['Waits for', formatWaiting(state.waiting)],
    // For a write in doubt the commands stand below.
    ['What to do', unknown ? undefined : remedyFor(state)],
    ['Project', state.projectId],
    ['Job', state.jobId],
    ['Upstream says', job?.status],
    ['Pull request', job?.prLink],
    ['Started', readableTime(state.startedAt)],
    ['Last change', readableTime(state.lastChangeAt)],
    ['Reads', String(state.polls)],
    ['Tags', state.tags?.join(', ')],
    ['Metadata', formatMetadata(state.metadata)],
    ['Follow-ups', state.followUps.map(({ id, state: fate }) => `${id}: ${fate}`).join(', ')],
    [
      'In doubt',
      unknown &&
        `${[unknown.kind, unknown.followUpId].filter(Boolean).join(' ')} since ${unknown.since}: ${unknown.reason}`,
    ],
    ['Look after', unknown?.lookAfter],
    lastDecisionField(state.decisions),
    ...resolveCommands(workflowId, unknown, globals),
  ]);
}

function formatMetadata(metadata: JobMetadata): string {
  return Object.entries(metadata)
    .map(([name, text]) => `${name}=${text}`)
    .join(', ');
}
