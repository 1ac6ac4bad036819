/** `list` and `watch`: jobs by what Temporal lists of them, once or as they change. */
import type { Command } from 'commander';
import { concurrently } from '../client/concurrently.js';
import type { JobFilter, JobSummary } from '../starter.js';
import type { JobCount } from '../client/agent-job/list.js';
import { countOf, fields, formatJobs, outputTerminal, printable, readableStatus } from './table.js';
import { print, printColoured, printJson, printToStderr, withSession, type Session } from './session.js';
import { requireBatch } from './targets.js';
import { addFilterOptions, toFilter, toLimit, type FilterFlags } from './options.js';
import { InterruptedError } from './exit.js';
import { followList } from './follow.js';
import { LiveScreen } from './terminal.js';

const DEFAULT_LIMIT = 100;

interface ListFlags extends FilterFlags {
  limit?: string;
  count?: boolean;
  json?: boolean;
}

/** Adds `list`, which lists jobs. */
export function addList(program: Command): void {
  const command = addFilterOptions(program.command('list').description('list jobs, one row a job'))
    .option('--limit <number>', `at most this many, 0 for all (default: ${DEFAULT_LIMIT}, with --json all)`)
    .option('--count', 'only how many they are, by the status of their workflows')
    .option('--json', 'print one line of JSON for each job')
    .action((flags: ListFlags) => list(command, flags));
}

async function list(command: Command, flags: ListFlags): Promise<void> {
  const limit = toLimit(flags.limit ?? (flags.json ? '0' : String(DEFAULT_LIMIT)));
  const filter = await toFilter(flags);
  await withSession(command, async ({ jobs, signal }) => {
    if (flags.count) {
      const found = await jobs.count(filter, { signal });
      if (found.total === 0) await requireBatch(jobs, flags.batch, signal);
      return printCount(found, flags.json ?? false);
    }
    const rows: JobSummary[] = [];
    let count = 0;
    for await (const job of jobs.list(filter, { signal })) {
      signal.throwIfAborted();
      if (count === limit) {
        printToStderr(`agent-jobs: there are more; --limit 0 lists all`);
        break;
      }
      count += 1;
      if (flags.json) printJson(job);
      else rows.push(job);
    }
    if (count === 0) await requireBatch(jobs, flags.batch, signal);
    if (!flags.json) printColoured(rows.length === 0 ? 'no jobs' : formatJobs(rows, outputTerminal()));
  });
}

function printCount(count: JobCount, isJson: boolean): void {
  if (isJson) return printJson(count);
  const rows = Object.entries(count.byStatus).map(([status, jobs]) => [readableStatus(status), String(jobs)] as const);
  print(fields([['All', String(count.total)], ...rows]));
}

const LOOK_MS = 2_000;
/** Ends stay on the screen for a while. */
const SHOWN_ENDS = 5;

/** Adds `watch`, which shows the open jobs as they change. */
export function addWatch(program: Command): void {
  const command = addFilterOptions(program.command('watch').description('show the open jobs as they change'))
    .argument('[query]', 'one more condition in the query language of Temporal’s visibility')
    .option('--json', 'print one line of JSON for each change')
    .action(async (query: string | undefined, { json: isJson = false, ...flags }: FilterFlags & { json?: boolean }) => {
      const filter = { ...(await toFilter(flags)), isRunning: true };
      await withSession(command, (session) => new JobWatch(session, { filter, query, isJson }).run());
    });
}

interface WatchSettings {
  filter: JobFilter;
  query: string | undefined;
  isJson: boolean;
}

class JobWatch {
  readonly #session: Session;
  readonly #settings: WatchSettings;
  readonly #screen: LiveScreen | null;
  #open = new Map<string, JobSummary>();
  readonly #ended: JobSummary[] = [];
  #problem: string | null = null;

  constructor(session: Session, settings: WatchSettings) {
    this.#session = session;
    this.#settings = settings;
    this.#screen = process.stdout.isTTY && !settings.isJson ? new LiveScreen() : null;
  }

  /** Until Ctrl-C. */
  async run(): Promise<void> {
    const { signal } = this.#session;
    try {
      await followList(signal, {
        look: () => this.#read(),
        take: async (open) => {
          await this.#tellChanges(open);
          this.#open = open;
          this.#show(null);
          return false;
        },
        onOutage: (text) => this.#show(text),
        pauseMs: LOOK_MS,
      });
    } catch (error) {
      throw signal.aborted ? new InterruptedError('jobs') : error;
    } finally {
      this.#screen?.end();
    }
  }

  #show(problem: string | null): void {
    if (problem !== null && this.#problem === null && this.#screen === null) printToStderr(`agent-jobs: ${problem}`);
    this.#problem = problem;
    this.#screen?.show((size) => this.#lines(size));
  }

  async #read(): Promise<Map<string, JobSummary>> {
    const { listJobs } = await import('../client/agent-job/list.js');
    const { jobs, signal } = this.#session;
    const { filter, query } = this.#settings;
    const found = new Map<string, JobSummary>();
    const condition = query === undefined ? undefined : `(${query})`;
    for await (const job of listJobs(jobs.client, filter, { signal, condition })) found.set(job.workflowId, job);
    return found;
  }

  async #tellChanges(open: ReadonlyMap<string, JobSummary>): Promise<void> {
    for (const job of open.values()) {
      const before = this.#open.get(job.workflowId);
      if (before === undefined || before.jobId !== job.jobId || lineOf(before) !== lineOf(job)) this.#tell(job);
    }
    const gone = [...this.#open.keys()].filter((workflowId) => !open.has(workflowId));
    const { lookAtJob } = await import('../client/agent-job/list.js');
    const { jobs, signal } = this.#session;
    // One that Temporal has deleted since has no end to tell.
    const looks = concurrently(gone, {}, (workflowId) =>
      lookAtJob(jobs.client, workflowId, { signal }).catch(nullIfMissing),
    );
    for await (const look of looks) if (look !== null) this.#tellGone(look.summary);
  }

  /** It has ended, or the filter does not fit any more. */
  #tellGone(job: JobSummary): void {
    this.#tell(job);
    if (job.workflowStatus === 'RUNNING') return;
    this.#ended.unshift(job);
    this.#ended.splice(SHOWN_ENDS);
  }

  #tell(job: JobSummary): void {
    if (this.#settings.isJson) printJson(job);
    else if (this.#screen === null) print(lineOf(job));
  }

  #lines({ width, height }: { width: number; height: number }): string[] {
    const jobs = [...this.#open.values()].sort(byNeed);
    const now = Date.now();
    // The title, the headings, the ends with their own title, and the line in which the cursor stands.
    const room = Math.max(1, height - 3 - (this.#ended.length === 0 ? 0 : this.#ended.length + 2));
    const shown = jobs.slice(0, jobs.length > room ? room - 1 : room);
    const hidden = jobs.length - shown.length;
    const people = jobs.filter(({ waitingFor }) => waitingFor === 'person').length;
    const need = people === 0 ? '' : `, ${people} for a person: npx agent-jobs attention`;
    const title = `${countOf(jobs.length, 'open job')}${need}  ${this.#problem ?? ''}`.trimEnd();
    const table = shown.length === 0 ? [] : formatJobs(shown, { width, now }).split('\n');
    const ends = this.#ended.length === 0 ? [] : ['', ...formatJobs(this.#ended, { width, now }).split('\n')];
    return [title, ...table, ...(hidden > 0 ? [`… and ${countOf(hidden, 'more job')}`] : []), ...ends];
  }
}

function nullIfMissing(error: Error): null {
  if (error.name === 'JobNotFoundError') return null;
  throw error;
}

/** What of a job is news. */
function lineOf({ workflowId, phase, status, waitingFor, prLink, workflowStatus }: JobSummary): string {
  const end = workflowStatus === 'RUNNING' ? null : readableStatus(workflowStatus);
  const parts = [workflowId, end ?? phase, waitingFor && `waits for ${waitingFor}`, status, prLink];
  return printable(parts.filter(Boolean).join('  '));
}

/** Who needs a person first, then who waits, then the newest. */
function byNeed(a: JobSummary, b: JobSummary): number {
  const need = ({ waitingFor }: JobSummary) => (waitingFor === 'person' ? 0 : waitingFor === null ? 2 : 1);
  return need(a) - need(b) || (a.startedAt < b.startedAt ? 1 : -1);
}
