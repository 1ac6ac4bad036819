import type { Command } from 'commander';
import type { JobMetadata, JobState } from '../contract.js';
import { readTarget } from './batch.js';
import { exitCodesText } from './exit.js';
import { waitAndPrint } from './job-end.js';
import { addJobNameOptions, findJob, readJobName, type JobNameFlags } from './job-name.js';
import { lastDecisionField, resolveCommands } from './resolution.js';
import { print, printJson, withSession, type GlobalOptions } from './session.js';
import { fields, readableTime } from './text.js';
import { waitForBatch } from './wait-batch.js';
import { formatWaiting, remedyFor } from './waiting-reason.js';

const WAIT_EXITS = `
Exit code:
${exitCodesText()}
With --batch: 0 where every job ended as completed or archived, else 13`;

interface InspectFlags extends JobNameFlags {
  json?: boolean;
}

/** Adds `state` and `wait`. */
export function addInspect(program: Command): void {
  const state = program
    .command('state')
    .description('show what a job is doing, or did')
    .argument('[job]', 'its workflow id, or its key where one job has it')
    .option('--json', 'print JSON')
    .action((given: string | undefined, { json, ...flags }: InspectFlags) => {
      const name = readJobName({ given, ...flags });
      return withSession(state, async (session) => {
        const { globals, signal } = session;
        const job = await findJob(session, name);
        const jobState = await job.state({ signal });
        if (json) printJson({ workflowId: job.workflowId, ...jobState });
        else print(formatState(job.workflowId, jobState, globals));
      });
    });
  addJobNameOptions(state);
  const wait = program
    .command('wait')
    .description('wait for the end of a job, or of all jobs of a batch')
    .argument('[job]', 'its workflow id, or its key where one job has it')
    .option('--batch <label>', 'until every job of this batch has ended')
    .option('--json', 'print JSON')
    .addHelpText('after', WAIT_EXITS)
    .action(async (given: string | undefined, { json = false, ...flags }: InspectFlags & { batch?: string }) => {
      const target = await readTarget(given, flags);
      await withSession(wait, async (session) => {
        if (target.batch !== null) return waitForBatch(session, target.batch, json);
        return waitAndPrint(session, await findJob(session, target.job), json);
      });
    });
  addJobNameOptions(wait);
}

function formatState(workflowId: string, state: JobState, globals: GlobalOptions): string {
  const { job, unknown } = state;
  return fields([
    ['Workflow', workflowId],
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
