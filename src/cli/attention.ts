import type { Command } from 'commander';
import type { AgentJobs, AttentionItem, StuckJob } from '../starter.js';
import { EXIT } from './exit.js';
import { inDoubtFields, lastDecisionField, resolveCommands } from './resolution.js';
import { print, printJson, printToStderr, withSession, type GlobalOptions } from './session.js';
import { fields } from './text.js';

/** Adds `attention`, which lists the jobs that need a person. */
export function addAttention(program: Command): void {
  const command = program
    .command('attention')
    .description('list the running jobs that need a person: a write in doubt, or code that fails again and again')
    .option('--json', 'print one line of JSON for each, to which "resolve --from" takes an action')
    .action(({ json = false }: { json?: boolean }) =>
      withSession(command, async ({ jobs, globals, signal }) => {
        const inDoubt = await printInDoubtWrites(jobs, globals, json, signal);
        const stuck = await printStuck(jobs, json, signal);
        if (inDoubt + stuck === 0 && !json) print('nothing needs attention');
      }),
    );
}

async function printInDoubtWrites(
  jobs: AgentJobs,
  globals: GlobalOptions,
  json: boolean,
  signal: AbortSignal,
): Promise<number> {
  let count = 0;
  for await (const item of jobs.needsAttention({ signal })) {
    count += 1;
    if (item.problem !== undefined) {
      printToStderr(`agent-jobs: ${item.workflowId} could not be read: ${item.problem}`);
      process.exitCode = EXIT.error;
    } else if (json) printJson(toLine(item));
    else print(`${formatItem(item, globals)}\n`);
  }
  return count;
}

async function printStuck(jobs: AgentJobs, json: boolean, signal: AbortSignal): Promise<number> {
  let count = 0;
  for await (const job of jobs.stuck({ signal })) {
    count += 1;
    if (json) printJson(toStuckLine(job));
    else print(`${formatStuckJob(job)}\n`);
  }
  return count;
}

function toLine({ workflowId, projectId, jobId, unknown, decisions }: AttentionItem) {
  return { workflowId, projectId, jobId, ...unknown, decisions };
}

/** Has no `kind`: `resolve` does not take it. */
function toStuckLine({ workflowId, projectId, ...stuck }: StuckJob) {
  return { workflowId, projectId, stuck };
}

function formatStuckJob({ workflowId, workflowType, projectId, attempts, since, failure }: StuckJob): string {
  return fields([
    ['Workflow', workflowId],
    ['Type', workflowType],
    ['Project', projectId],
    ['Stuck', `its workflow task was tried ${attempts} times`],
    ['Since', since],
    ['Failure', failure ?? 'none is recorded: the task timed out'],
    ['Why', "a bug, or a release that does not fit its history: see the worker's log lines with this workflowId"],
    ['To mend it', 'run the release before, or one that is mended: the workflow goes on by itself'],
  ]);
}

function formatItem(
  { workflowId, projectId, jobId, unknown, decisions }: AttentionItem,
  globals: GlobalOptions,
): string {
  return fields([
    ['Workflow', workflowId],
    ['Project', projectId],
    ['Job', jobId],
    ...inDoubtFields(unknown),
    lastDecisionField(decisions),
    [
      'Check upstream',
      unknown?.kind === 'create' ? 'is there a job with this prompt?' : 'does the job show this message?',
    ],
    ...resolveCommands(workflowId, unknown, globals),
  ]);
}
