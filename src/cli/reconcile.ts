import { createReadStream } from 'node:fs';
import type { Command } from 'commander';
import { concurrently } from '../client/concurrently.js';
import type { JobState } from '../contract.js';
import { EXIT, UsageError } from './exit.js';
import { toTime } from './options.js';
import { readLines, type Line } from './input.js';
import { printJson, printToStderr, withSession, type Session } from './session.js';
import { countOf, printable } from './table.js';

interface ReconcileFlags {
  since?: string;
  json?: boolean;
}

/** A worker's line holds ids, a reason and metadata. */
const MAX_LINE_BYTES = 1024 * 1024;
const WANTED = 'give what its workers wrote with LOG_FORMAT=json';
const NOTE = "a worker's log shows that the upstream took it";

const EXITS = `
Findings: adopt, delivered, attach (the log proves it: a line for "resolve --from"); waits (repeat the command);
forgotten (a follow-up that Temporal does not know: a repetition asks); inDoubt, twoJobs (look upstream).
Exit code: 0 nothing is left, 13 something is left, 1 no line of the log is a worker's`;

/** Adds `reconcile`, which tells what a restored Temporal has forgotten and the workers' logs still tell. */
export function addReconcile(program: Command): void {
  const command = program
    .command('reconcile')
    .description('compare a restored Temporal with the workers’ logs, and print lines for "resolve --from"')
    .argument('<logs...>', 'what the workers wrote, as lines of JSON; "-" is stdin')
    .option('--since <time>', 'leave out lines from before it, the time of the backup; or "2 hours" ago')
    .option('--json', 'print a line of JSON for what is left to a person, too')
    .addHelpText('after', EXITS)
    .action((files: string[], flags: ReconcileFlags) => reconcile(command, files, flags));
}

async function reconcile(command: Command, files: string[], flags: ReconcileFlags): Promise<void> {
  const since = await toTime('--since', flags.since);
  await withSession(command, async (session) => {
    const { namespace } = session.jobs.client.options;
    const { jobs: traces, lines } = await readTraces(linesOf(files), { namespace, since });
    if (lines === 0) throw new Error(`no line tells of a write in the namespace ${namespace}: ${WANTED}`);
    const count = { known: 0, proven: 0, left: 0 };
    for await (const finding of lookAtAll(session, traces)) {
      if (finding.finding === 'known') count.known += 1;
      else {
        count[isProven(finding) ? 'proven' : 'left'] += 1;
        tell(finding, flags);
      }
    }
    const { known, proven, left } = count;
    const found = proven + left === 0 ? '' : `, ${countOf(proven, 'finding')} for resolve --from, ${left} for a person`;
    printToStderr(`agent-jobs: ${countOf(traces.length, 'job')} in the log: ${known} known${found}`);
    if (proven + left > 0) process.exitCode = EXIT.notAll;
  });
}

async function* linesOf(files: readonly string[]) {
  for (const file of files) {
    const stream = file === '-' ? process.stdin : createReadStream(file);
    try {
      yield* readLines(stream as AsyncIterable<Uint8Array>, MAX_LINE_BYTES);
    } catch (error) {
      throw new UsageError(`${file} can not be read: ${(error as Error).message}`);
    }
  }
}

async function* lookAtAll(session: Session, traces: readonly JobTrace[]): AsyncGenerator<Finding> {
  const limits = { signal: session.signal };
  const look = (trace: JobTrace) => lookAt(session, trace);
  for await (const findings of concurrently(traces, limits, look)) yield* findings;
}

/** What the log proves is a line that `resolve --from` takes. */
function tell(finding: Finding, { json = false }: ReconcileFlags): void {
  if (isProven(finding)) return printJson({ ...finding, action: finding.finding, note: NOTE });
  if (json) return printJson(finding);
  const { workflowId, jobId, followUpId, text } = finding;
  const ids = [jobId && `job ${jobId}`, followUpId && `follow-up ${followUpId}`].filter(Boolean).join(', ');
  printToStderr(printable(`${workflowId}  ${finding.finding}  ${ids === '' ? '' : `${ids}: `}${text}`));
}

/** What the comparison says of one job or one of its follow-ups; `text` says it to a person. */
interface Finding {
  workflowId: string;
  projectId: string;
  jobId: string | null;
  followUpId: string | null;
  /**
   * `adopt`, `delivered`, `attach`: the log proves it, and `resolve` does it. `waits`: the write has not asked yet.
   * `forgotten`: the log shows a follow-up that Temporal does not know; a repetition of it asks. `canceled`: it was,
   * and is open again. `inDoubt`: the create has a job, or may have one, that no workflow watches. `twoJobs`: the log
   * names another job than Temporal, or two. `known`: all is well.
   */
  finding: 'known' | 'adopt' | 'delivered' | 'attach' | 'waits' | 'forgotten' | 'canceled' | 'inDoubt' | 'twoJobs';
  text: string;
  /** Of the write that asks. */
  since?: string;
  /** Of `attach`: where the workflow ran, and the follow-ups that must not be sent again. */
  taskQueue?: string;
  usedFollowUpIds?: string[];
}

/** What Temporal lacks of this job; one `known` where it lacks nothing. */
async function lookAt({ jobs, signal }: Session, trace: JobTrace): Promise<Finding[]> {
  const state = await readState(jobs.handle(trace.workflowId).state({ signal }));
  if (typeof state === 'string') return [toFinding(trace, 'waits', state)];
  const findings = state === null ? findingsOfForgotten(trace, jobs.taskQueue) : findingsOfKnown(trace, state);
  return findings.length > 0 ? findings : [toFinding(trace, 'known', 'Temporal knows all that the log tells')];
}

/** Null where Temporal knows no such workflow; a text where no worker answers in time. */
async function readState(state: Promise<JobState>): Promise<JobState | string | null> {
  try {
    return await state;
  } catch (error) {
    // By name: the client's classes are loaded only when a command connects.
    const { name, message } = error as Error;
    if (name === 'JobNotFoundError') return null;
    if (name === 'NoWorkerError') return message;
    throw error;
  }
}

function findingsOfForgotten(trace: JobTrace, usualTaskQueue: string): Finding[] {
  const [jobId, another] = trace.jobIds;
  if (another !== undefined) return [twoJobs(trace)];
  if (jobId !== undefined) {
    const { taken, doubtful } = trace;
    const taskQueue = trace.taskQueue ?? usualTaskQueue;
    const usedFollowUpIds = [...new Set([...taken, ...doubtful])];
    return [{ ...toFinding(trace, 'attach', 'Temporal knows no such job'), jobId, taskQueue, usedFollowUpIds }];
  }
  if (!trace.isCreateDoubtful) return [];
  const text = 'Temporal knows no such job, and its create was in doubt: look upstream, and start it with --job-id';
  return [toFinding(trace, 'inDoubt', text)];
}

function findingsOfKnown(trace: JobTrace, state: JobState): Finding[] {
  const known = new Set([...trace.jobIds, ...(state.jobId === null ? [] : [state.jobId])]);
  if (known.size > 1) return [twoJobs(trace, state.jobId)];
  const [jobId = null] = known;
  if (state.jobId === null && jobId !== null) return [{ ...findingOfCreate(trace, state), jobId }];
  const followUps = new Set([...trace.taken, ...trace.doubtful]);
  return [...findingsOfEnd(trace, state), ...[...followUps].flatMap((id) => findingOfFollowUp(trace, state, id) ?? [])];
}

function findingsOfEnd(trace: JobTrace, { jobId, outcome }: JobState): Finding[] {
  if (!trace.isCanceled || outcome !== null) return [];
  return [{ ...toFinding(trace, 'canceled', 'the job was cancelled, and is open again: cancel it again'), jobId }];
}

function findingOfCreate(trace: JobTrace, { unknown, outcome }: JobState): Finding {
  if (unknown?.kind === 'create') {
    return { ...toFinding(trace, 'adopt', 'the create is in doubt, and the log names its job'), since: unknown.since };
  }
  if (outcome === null) return toFinding(trace, 'waits', 'the create has not asked yet, and the log names its job');
  const text = `the workflow has ended (${outcome}) without the job that the log names: watch it with --job-id`;
  return toFinding(trace, 'inDoubt', text);
}

function findingOfFollowUp(trace: JobTrace, state: JobState, id: string): Finding | null {
  const finding = (kind: Finding['finding'], text: string): Finding => {
    return { ...toFinding(trace, kind, text), jobId: state.jobId, followUpId: id };
  };
  const isTaken = trace.taken.has(id);
  if (isTaken && state.unknown?.followUpId === id) {
    return { ...finding('delivered', 'the follow-up is in doubt, and the log shows it'), since: state.unknown.since };
  }
  const fate = state.followUps.find((followUp) => followUp.id === id)?.state;
  if (fate === 'queued' && isTaken) return finding('waits', 'the follow-up has not asked yet, and the log shows it');
  const isUsed = (fate !== undefined && fate !== 'abandoned') || state.usedFollowUpIds.includes(id);
  if (isUsed) return null;
  return finding('forgotten', `Temporal does not know this follow-up, which ${isTaken ? 'was' : 'may have been'} sent`);
}

function twoJobs(trace: JobTrace, known: string | null = null): Finding {
  const jobs = [...new Set([...(known === null ? [] : [known]), ...trace.jobIds])];
  return { ...toFinding(trace, 'twoJobs', `there is more than one job: ${jobs.join(', ')}`), jobId: known };
}

function toFinding({ workflowId, projectId }: JobTrace, finding: Finding['finding'], text: string): Finding {
  return { workflowId, projectId, jobId: null, followUpId: null, finding, text };
}

/** Whether the log proves what is to be done. */
function isProven({ finding }: Finding): boolean {
  return finding === 'adopt' || finding === 'delivered' || finding === 'attach';
}

/** Which lines count: a log may hold those of other namespaces, and of the time before the backup. */
export interface LogFilter {
  namespace: string;
  since: Date | undefined;
}

/**
 * Reads the lines of a worker that tell of a write or an end, and counts them. All others are left out, whoever wrote
 * them.
 */
export async function readTraces(
  lines: AsyncIterable<Line>,
  filter: LogFilter,
): Promise<{ jobs: JobTrace[]; lines: number }> {
  const { LOG_LINE } = await import('../agent-job/labels.js');
  const jobs = new Map<string, JobTrace>();
  let count = 0;
  for await (const line of lines) {
    const entry = 'text' in line ? parse(line.text) : null;
    if (entry === null || !Object.values<unknown>(LOG_LINE).includes(entry.msg) || !counts(entry, filter)) continue;
    count += 1;
    const trace = jobs.get(entry.workflowId) ?? new JobTrace(entry);
    jobs.set(entry.workflowId, trace);
    trace.add(entry, { isTaken: entry.msg === LOG_LINE.taken, isInDoubt: entry.msg === LOG_LINE.inDoubt });
  }
  return { jobs: [...jobs.values()], lines: count };
}

/** A workflow id means nothing in another namespace, and an older job of the same key is another one. */
function counts({ namespace, time }: Entry, filter: LogFilter): boolean {
  if (namespace !== undefined && namespace !== filter.namespace) return false;
  return filter.since === undefined || (typeof time === 'string' && Date.parse(time) >= filter.since.getTime());
}

interface Entry {
  msg: unknown;
  time?: unknown;
  namespace?: unknown;
  taskQueue?: unknown;
  workflowId: string;
  projectId: string;
  jobId?: unknown;
  write?: unknown;
  followUpId?: unknown;
  outcome?: unknown;
}

/** All that the lines of one workflow id tell. */
class JobTrace {
  readonly workflowId: string;
  readonly projectId: string;
  /** Where the workflow ran; null where its lines do not say. */
  readonly taskQueue: string | null;
  /** More than one where the log names two jobs of one workflow id. */
  readonly jobIds = new Set<string>();
  /** Follow-ups that the upstream took. */
  readonly taken = new Set<string>();
  /** Follow-ups that may or may not have arrived. */
  readonly doubtful = new Set<string>();
  isCreateDoubtful = false;
  /** Whether the last that the log tells is its cancellation. */
  isCanceled = false;
  #lastAt = -Infinity;

  constructor({ workflowId, projectId, taskQueue }: Entry) {
    this.workflowId = workflowId;
    this.projectId = projectId;
    this.taskQueue = typeof taskQueue === 'string' ? taskQueue : null;
  }

  add(entry: Entry, { isTaken, isInDoubt }: { isTaken: boolean; isInDoubt: boolean }): void {
    const { time, jobId, write, followUpId, outcome } = entry;
    const at = typeof time === 'string' ? Date.parse(time) : Number.NaN;
    // Logs of several workers come one after the other: the time decides what is the last.
    if (!(at < this.#lastAt)) {
      this.#lastAt = at;
      this.isCanceled = outcome === 'Canceled';
    }
    if (typeof jobId === 'string') this.jobIds.add(jobId);
    if (isInDoubt && write === 'create') this.isCreateDoubtful = true;
    if (typeof followUpId !== 'string') return;
    if (isTaken) this.taken.add(followUpId);
    else if (isInDoubt) this.doubtful.add(followUpId);
  }
}

/** Null for a line that is no worker's, or lacks what names a job. */
function parse(text: string): Entry | null {
  try {
    const entry = JSON.parse(text) as Partial<Entry> | null;
    const isNamed = typeof entry?.workflowId === 'string' && typeof entry.projectId === 'string';
    return isNamed ? (entry as Entry) : null;
  } catch {
    return null;
  }
}
