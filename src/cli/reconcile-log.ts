/** What the logs of workers tell of each job: which job upstream is its own, and which follow-ups were sent. */
import type { Line } from './read-lines.js';

/** All that the lines of one workflow id tell. */
export interface JobTrace {
  workflowId: string;
  projectId: string;
  /** Where the workflow ran; null where its lines do not say. */
  taskQueue: string | null;
  /** More than one where the log names two jobs of one workflow id. */
  jobIds: ReadonlySet<string>;
  /** Follow-ups that the upstream took. */
  taken: ReadonlySet<string>;
  /** Follow-ups that may or may not have arrived. */
  doubtful: ReadonlySet<string>;
  isCreateDoubtful: boolean;
  /** Whether the last that the log tells is its cancellation. */
  isCanceled: boolean;
}

/** The traces of a log, and how many of its lines told something. */
export interface LogTraces {
  jobs: JobTrace[];
  lines: number;
}

/** Which lines count: a log may hold those of other namespaces, and of the time before the backup. */
export interface LogFilter {
  namespace: string;
  since: Date | undefined;
}

/** Reads the lines of a worker that tell of a write or an end. All others are left out, whoever wrote them. */
export async function readTraces(lines: AsyncIterable<Line>, filter: LogFilter): Promise<LogTraces> {
  const { LOG_LINE } = await import('../agent-job/labels.js');
  const jobs = new Map<string, Trace>();
  let count = 0;
  for await (const line of lines) {
    const entry = 'text' in line ? parse(line.text) : null;
    if (entry === null || !Object.values<unknown>(LOG_LINE).includes(entry.msg) || !counts(entry, filter)) continue;
    count += 1;
    const trace = jobs.get(entry.workflowId) ?? new Trace(entry);
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

class Trace implements JobTrace {
  readonly workflowId: string;
  readonly projectId: string;
  readonly taskQueue: string | null;
  readonly jobIds = new Set<string>();
  readonly taken = new Set<string>();
  readonly doubtful = new Set<string>();
  isCreateDoubtful = false;
  isCanceled = false;
  #lastAt = -Infinity;

  constructor({ workflowId, projectId, taskQueue }: Entry) {
    this.workflowId = workflowId;
    this.projectId = projectId;
    this.taskQueue = typeof taskQueue === 'string' ? taskQueue : null;
  }

  add(
    { time, jobId, write, followUpId, outcome }: Entry,
    { isTaken, isInDoubt }: { isTaken: boolean; isInDoubt: boolean },
  ): void {
    this.#hearOfEnd(outcome, typeof time === 'string' ? Date.parse(time) : Number.NaN);
    if (typeof jobId === 'string') this.jobIds.add(jobId);
    if (isInDoubt && write === 'create') this.isCreateDoubtful = true;
    if (typeof followUpId !== 'string') return;
    if (isTaken) this.taken.add(followUpId);
    else if (isInDoubt) this.doubtful.add(followUpId);
  }

  /** Logs of several workers come one after the other: the time decides what is the last. */
  #hearOfEnd(outcome: unknown, at: number): void {
    if (at < this.#lastAt) return;
    this.#lastAt = at;
    this.isCanceled = outcome === 'Canceled';
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
