import type { Command } from 'commander';
import { concurrently } from '../client/concurrently.js';
import type { AgentJobs, AttentionItem, StuckJob } from '../starter.js';
import { unpauseText } from '../temporal/open-workflows.js';
import { EXIT } from './exit.js';
import { inDoubtFields, lastDecisionField, resolveCommands } from './in-doubt.js';
import {
  print,
  printAnswer,
  printJson,
  printToStderr,
  withSession,
  type GlobalOptions,
  type Session,
} from './session.js';
import { fields, firstLine, printable, printableLines, shellWord } from './table.js';

/** Adds `attention`, which lists the jobs that need a person, and how each can be settled. */
export function addAttention(program: Command): void {
  const command = program
    .command('attention')
    .description(
      'list what needs a person: in-doubt writes, pauses, failing code, versions without workers, webhooks given up',
    )
    .option('--json', 'print one line of JSON for each, to which "resolve --from" takes an action')
    .action(({ json = false }: { json?: boolean }) =>
      withSession(command, async (session) => {
        const inDoubt = await tellInDoubtWrites(session, json);
        const stuck = await printStuck(session.jobs, json, session.signal);
        const undelivered = await printUndelivered(session, json);
        if (inDoubt + stuck + undelivered === 0 && !json) print('nothing needs attention');
      }),
    );
}

async function tellInDoubtWrites(session: Session, isJson: boolean): Promise<number> {
  const { jobs, globals, signal } = session;
  const items = concurrently(jobs.needsAttention({ signal }), { signal }, async (item) => ({
    // A title begins with the prompt.
    item: jobs.hidePrompts ? { ...item, title: null } : item,
    prompt: item.unknown === null ? null : await readPromptOf(session, item.workflowId),
  }));
  let count = 0;
  for await (const { item, prompt } of items) {
    count += 1;
    if (item.problem !== undefined) {
      printToStderr(printable(`agent-jobs: ${item.workflowId} could not be read: ${item.problem}`));
      process.exitCode = EXIT.error;
    } else if (isJson) {
      const { problem: _, ...named } = item;
      printJson({ ...named, promptLine: prompt && firstLine(prompt) });
    } else {
      const isCreate = item.unknown?.kind === 'create';
      print(`${formatItem(item, globals)}${isCreate && prompt !== null ? promptText(prompt) : ''}\n`);
    }
  }
  return count;
}

async function printStuck(jobs: AgentJobs, json: boolean, signal: AbortSignal): Promise<number> {
  let count = 0;
  for await (const job of jobs.stuck({ signal })) {
    count += 1;
    const { workflowId, projectId, ...stuck } = job;
    // Without a `kind`: `resolve` does not take it.
    printAnswer(json, { workflowId, projectId, stuck }, () => `${formatStuckJob(job)}\n`);
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
    const { workflowId, type, of, to, givenUpAt } = undelivered;
    const text = fields([
      ['Webhook', workflowId],
      ['Event', type],
      ['Of', of],
      ['Not taken by', to],
      ['Given up', givenUpAt],
      ['To send it again', `${RESET} ${shellWord(workflowId)}`],
    ]);
    printAnswer(json, { undelivered }, () => `${text}\n`);
  }
  return count;
}

/** A workflow that makes no progress: why, and what mends it. */
function formatStuckJob(job: StuckJob): string {
  const { workflowId, workflowType, projectId } = job;
  const [why, remedy] = whyStuck(job);
  return fields([
    ['Workflow', workflowId],
    ['Type', workflowType],
    ['Project', projectId],
    ['Stuck', why],
    ['To mend it', remedy],
  ]);
}

function whyStuck({ workflowId, problems, pinnedTo, paused }: StuckJob): [why: string, remedy: string] {
  if (paused !== null) return [`it is ${paused}`, unpauseText(workflowId)];
  if (pinnedTo === null) {
    const remedy = 'see docs/runbooks.md, "AgentJobsWorkflowTasksFail": it goes on once a worker can run it';
    return [`its workflow task fails: ${problems.join(', ')}`, remedy];
  }
  const move = 'run workers of that version, or move it to the current one: docs/upgrades.md, "Pinned versions"';
  return [`no worker of version ${pinnedTo} runs, to which it is pinned`, move];
}

function formatItem(
  { workflowId, title, url, projectId, jobId, unknown, decisions }: AttentionItem,
  globals: GlobalOptions,
): string {
  return fields([
    ['Workflow', workflowId],
    ['Title', title],
    ['Web UI', url],
    ['Project', projectId],
    ['Job', jobId ?? 'not known'],
    ...inDoubtFields(unknown),
    lastDecisionField(decisions),
    [
      'Check upstream',
      unknown?.kind === 'create' ? 'is there a job with this prompt?' : 'does the job show this message?',
    ],
    ...resolveCommands(workflowId, unknown, globals),
  ]);
}

/** A prompt may be half a megabyte: its beginning tells which one it is. */
const SHOWN_LINES = 12;
const SHOWN_CHARACTERS = 1_200;

/** Null where prompts are hidden, and where Temporal no longer tells. */
async function readPromptOf({ jobs, signal }: Session, workflowId: string): Promise<string | null> {
  if (jobs.hidePrompts) return null;
  const { temporalCall } = await import('../client/temporal-call.js');
  const { readRun, readStartInput } = await import('../client/agent-job/run-record.js');
  const read = async () => readStartInput(jobs.client, workflowId, (await readRun(jobs.client, workflowId)).firstRunId);
  const input = await temporalCall(jobs.client, { signal }, read).catch(() => null);
  return input?.prompt ?? null;
}

/** The beginning of a prompt. */
function promptText(prompt: string): string {
  const lines = printableLines(prompt.slice(0, SHOWN_CHARACTERS)).split('\n').slice(0, SHOWN_LINES);
  const more = lines.join('\n').length < prompt.length ? ['…'] : [];
  return ['\nPrompt', ...[...lines, ...more].map((line) => `  ${line}`)].join('\n');
}
