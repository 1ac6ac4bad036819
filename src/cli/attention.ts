/** `attention`: the jobs, workflows and webhooks that need a person, and how each can be mended. */
import type { Command } from 'commander';
import type { AgentJobs, StuckJob } from '../starter.js';
import { unpauseText } from '../temporal/open-workflows.js';
import { EXIT } from './exit.js';
import { print, printAnswer, printToStderr, type Session, withSession } from './session.js';
import { printable, resolveCommands, shellWord, show } from './show.js';

/** Adds `attention`. */
export function addAttention(program: Command): void {
  const what = 'in-doubt writes, pauses, failing code, versions without workers, webhooks given up';
  const command = program
    .command('attention')
    .description(`list what needs a person: ${what}`)
    .option('--json', 'print one line of JSON for each, to which "resolve --from" takes an action')
    .action(({ json = false }: { json?: boolean }) =>
      withSession(command, async (session) => {
        const inDoubt = await printInDoubtWrites(session, json);
        const stuck = await printStuck(session.jobs, json, session.signal);
        const undelivered = await printUndelivered(session, json);
        if (inDoubt + stuck + undelivered === 0 && !json) print('nothing needs attention');
      }),
    );
}

async function printInDoubtWrites(session: Session, isJson: boolean): Promise<number> {
  const { jobs, globals, signal } = session;
  let count = 0;
  for await (const { problem, ...item } of jobs.needsAttention({ signal })) {
    count += 1;
    // A title begins with the prompt.
    const named = jobs.hidePrompts ? { ...item, title: null } : item;
    const { workflowId, unknown } = named;
    if (problem !== undefined) {
      printToStderr(printable(`agent-jobs: ${workflowId} could not be read: ${problem}`));
      process.exitCode = EXIT.error;
      continue;
    }
    const isCreate = unknown?.kind === 'create';
    const checkUpstream = isCreate ? 'is there a job with its prompt?' : 'does the job show this message?';
    const text = () => show({ ...named, checkUpstream }, resolveCommands(workflowId, unknown, globals));
    printAnswer(isJson, named, () => `${text()}\n`);
  }
  return count;
}

async function printStuck(jobs: AgentJobs, json: boolean, signal: AbortSignal): Promise<number> {
  let count = 0;
  for await (const job of jobs.stuck({ signal })) {
    count += 1;
    const { workflowId, projectId, ...stuck } = job;
    const [why, toMendIt] = whyStuck(job);
    const shown = { workflowId, type: job.workflowType, projectId, stuck: why, toMendIt };
    // Without a `kind`: `resolve` does not take it.
    printAnswer(json, { workflowId, projectId, stuck }, () => `${show(shown)}\n`);
  }
  return count;
}

/** A delivery is sent again by the Temporal CLI, with the same id and body. */
const RESET = `temporal workflow reset --type FirstWorkflowTask --reason 'send again' --workflow-id`;

async function printUndelivered({ jobs, signal }: Session, json: boolean): Promise<number> {
  const { listUndelivered } = await import('../client/undelivered-webhooks.js');
  let count = 0;
  for await (const undelivered of listUndelivered(jobs.client, { signal })) {
    count += 1;
    const { workflowId: webhook, type: event, of, to: notTakenBy, givenUpAt } = undelivered;
    const shown = { webhook, event, of, notTakenBy, givenUpAt, toSendItAgain: `${RESET} ${shellWord(webhook)}` };
    printAnswer(json, { undelivered }, () => `${show(shown)}\n`);
  }
  return count;
}

/** A workflow that makes no progress: why, and what mends it. */
function whyStuck({ workflowId, problems, pinnedTo, paused }: StuckJob): [why: string, remedy: string] {
  if (paused !== null) return [`it is ${paused}`, unpauseText(workflowId)];
  if (pinnedTo === null) {
    const remedy = 'see docs/runbooks.md, "AgentJobsWorkflowTasksFail": it goes on once a worker can run it';
    return [`its workflow task fails: ${problems.join(', ')}`, remedy];
  }
  const move = 'run workers of that version, or move it to the current one: docs/operations.md, "Pinned versions"';
  return [`no worker of version ${pinnedTo} runs, to which it is pinned`, move];
}
