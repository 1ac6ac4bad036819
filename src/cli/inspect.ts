/** `state`, `list` and `queue`: what jobs do or did, and who waits to send. */
import type { Command } from 'commander';
import ms from 'ms';
import { waitRemedy } from '../agent-job/shown-text.js';
import type { RequestQueueState } from '../contract.js';
import { OPERATIONS } from '../operations.js';
import type { JobSummary, QueueReport } from '../starter.js';
import { CommandError } from './exit.js';
import { addOperation, callOf, type JobNameFlags, readArguments, readJobName } from './operation.js';
import { toLimit } from './options.js';
import { type Item, print, printAnswer, printItems, printJson, printToStderr, withSession } from './session.js';
import { firstLine, resolveCommands, show, showRows } from './show.js';

/** Adds `state`. */
export function addState(program: Command): void {
  const command = addOperation(program, OPERATIONS.state);
  command.action(() => {
    const { json, ...flags } = command.opts<JobNameFlags & { json?: boolean }>();
    const [name] = readJobName(command.args, flags);
    return withSession(command, async (session) => {
      const job = session.jobs.handle(name);
      const { workflowId, url, state, failure } = await OPERATIONS.state.run({ ...callOf(session), args: {}, job });
      if (state === null) throw new CommandError('error', `it has no state: ${failure?.message}`, { workflowId });
      // For a write in doubt the commands stand below.
      const whatToDo = state.waiting && !state.unknown ? waitRemedy(state.waiting, state.projectId) : null;
      const commands = resolveCommands(workflowId, state.unknown, session.globals);
      const answer = { workflowId, url, ...state };
      printAnswer(json, answer, () => show({ ...answer, whatToDo }, commands));
    });
  });
}

const DEFAULT_JOBS = 100;
const JOB_COLUMNS = [
  ...['workflowId', 'phase', 'waitingFor', 'outcome', 'status', 'startedAt', 'workflowStatus', 'prLink', 'tags'],
  'title',
] as const;
/** The last ones are cut where the terminal ends. */
const TERMINAL_COLUMNS = ['workflowId', 'now', 'age', 'prLink', 'title'];
/** `--json` has titles whole. */
const TITLE_CHARACTERS = 60;

interface ListFlags {
  project?: string;
  limit?: string;
  json?: boolean;
}

/** Adds `list`, which lists jobs. */
export function addList(program: Command): void {
  const command = addOperation(program, OPERATIONS.list, ['limit', 'cursor']);
  command
    .option('--limit <number>', `at most this many, 0 for all (default: ${DEFAULT_JOBS}, with --json all)`)
    .action((flags: ListFlags) => list(command, flags));
}

async function list(command: Command, flags: ListFlags): Promise<void> {
  const limit = toLimit(flags.limit ?? (flags.json ? '0' : String(DEFAULT_JOBS)));
  const { limit: _, ...typed } = flags;
  const { tag: tags, ...others } = readArguments(typed, OPERATIONS.list);
  await withSession(command, async ({ jobs, signal }) => {
    const rows: JobSummary[] = [];
    let count = 0;
    for await (const job of jobs.list({ ...others, tags, projectId: flags.project }, { signal })) {
      signal.throwIfAborted();
      if (count === limit) {
        printToStderr(`agent-jobs: there are more; --limit 0 lists all`);
        break;
      }
      count += 1;
      if (flags.json) printJson(job);
      else rows.push(shortened(job));
    }
    if (!flags.json) print(rows.length === 0 ? 'no jobs' : tableOf(rows));
  });
}

/** The table of a list: at a terminal what fits in its width, else all columns. */
function tableOf(rows: readonly JobSummary[]): string {
  const { isTTY, columns } = process.stdout;
  if (!isTTY) return showRows(rows, JOB_COLUMNS);
  const table = showRows(rows.map(atTerminal), TERMINAL_COLUMNS);
  return table.replace(/^.+$/gm, (line) => firstLine(line, columns));
}

function atTerminal({ workflowId, phase, waitingFor, outcome, startedAt, prLink, title }: JobSummary) {
  const now = outcome ?? (waitingFor === null ? phase : `waits: ${waitingFor}`);
  return { workflowId, now, age: ms(Date.now() - Date.parse(startedAt)), prLink, title };
}

/** The project stands in the workflow's id. */
function shortened(job: JobSummary): JobSummary {
  const title = firstLine((job.title ?? '').replace(`${job.projectId}: `, ''), TITLE_CHARACTERS);
  return { ...job, title, workflowStatus: job.workflowStatus.toLowerCase() };
}

/** Adds `queue`, which shows who waits for a turn to send. */
export function addQueue(program: Command): void {
  const command = program
    .command('queue')
    .description('show who waits for the upstream’s budget, and who is next')
    .option('--project <id>', 'of one project (default: all queues, and that of the exports)')
    .option('--json', 'print one line of JSON for each queue')
    .action(({ project: projectId, json: isJson }: { project?: string; json?: boolean }) =>
      withSession(command, ({ jobs, signal }) => {
        const queues = jobs.queues({ projectId }, { signal });
        return printItems(queueItems(queues), { isJson, noun: 'queue', none: 'no queue' });
      }),
    );
}

async function* queueItems(queues: AsyncIterable<QueueReport>): AsyncGenerator<Item> {
  for await (const { workflowId, state, problem } of queues) {
    if (state) yield { line: { workflowId, ...state }, text: queueText(workflowId, state) };
    else yield { problem: `${workflowId} could not be read: ${problem}` };
  }
}

function queueText(workflowId: string, { waiting, ...queue }: RequestQueueState): string {
  const [perHour, perDay] = [queue.perHour, queue.perDay].map((limit) => limit ?? 'no budget is set');
  const head = show({ workflowId, ...queue, perHour, perDay });
  if (waiting.length === 0) return head;
  const hidden = queue.waitingCount - waiting.length;
  const rest = hidden > 0 ? `\n… and ${hidden} more, each with its place in "agent-jobs state"` : '';
  return `${head}\n\n${showRows(waiting, ['position', 'priority', 'since', 'expectedAt', 'workflowId'])}${rest}`;
}
