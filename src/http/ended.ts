/**
 * The feed of ends: what of a project ended since a cursor, oldest first, none left out. Temporal lists an end late,
 * and out of order. So whoever has come to the newest end reads the last minutes again, and the cursor remembers which
 * ends it has told, as many as fit: others come again, with the same `runId`. No server keeps anything.
 */
import { createHash } from 'node:crypto';
import { agentJobOf } from '../contract.js';
import { InvalidInputError } from '../contract/input-checks.js';
import { countJobs, listJobs } from '../client/agent-job/list.js';
import type { JobFilter, JobSummary } from '../starter.js';
import type { Answer, Call } from './request.js';

/** So late an end may be listed, clocks that differ included. */
const OVERLAP_MS = 5 * 60_000;
/** Ends that a cursor remembers: as part of a URL a longer one would not pass every proxy. */
const MAX_TOLD = 200;
/** Temporal lists the newest first: so many ends are read at once to find the oldest. */
const MAX_READ = 1_000;
const DEFAULT_PAGE = 100;
const HASH_CHARACTERS = 11; // of 8 bytes
/** Of a cursor's form: readers keep theirs for long, also while servers of two releases answer. */
const VERSION = '1';

/** Where a reader stands in its pass over the ends. */
interface Cursor {
  /** When the pass began: what ended long enough before was listed by then. */
  passAt: number;
  /** What ended before it, and up to this run of the same moment, was told; no run where the pass begins. */
  at: number;
  runId: string;
  /** Hashes of runs that the pass may meet again. */
  told: ReadonlySet<string>;
}

type End = JobSummary & { endedAt: string };

/** Answers with a page of the feed; one that is not full has come to the newest end. */
export async function listEnded(call: Call): Promise<Answer> {
  const { cursor: given, limit = DEFAULT_PAGE } = call.query as { cursor?: string; limit?: number };
  const now = Date.now();
  const read = readCursor(call.projectId!, given ?? null);
  const cursor = read.runId === '' ? { ...read, passAt: now } : read;
  const { ends, isAll } = await readEnds(call, cursor, now + OVERLAP_MS, limit);
  const page = ends.slice(0, limit);
  const next = nextOf(cursor, page, isAll && page.length === ends.length);
  return { status: 200, body: { jobs: page.map(toRow), nextCursor: toCursor(call.projectId!, next) } };
}

function toRow({ workflowId, runId, outcome, jobId, prLink, endedAt }: End): object {
  return { key: agentJobOf(workflowId)?.key ?? null, workflowId, runId, outcome, jobId, prLink, endedAt };
}

/** Goes on behind the page; after the newest end a new pass begins, with the ends that this one may have missed. */
function nextOf(cursor: Cursor, page: readonly End[], isAll: boolean): Cursor {
  const told = new Set([...cursor.told, ...page.map((end) => hashOf(end.runId))].slice(-MAX_TOLD));
  if (isAll) return { passAt: 0, at: Math.max(0, cursor.passAt - OVERLAP_MS), runId: '', told };
  const last = page.at(-1)!;
  return { ...cursor, at: timeOf(last), runId: last.runId, told };
}

/** Reads on from the cursor until there is more than a page, or no more. */
async function readEnds(
  call: Call,
  cursor: Cursor,
  until: number,
  limit: number,
): Promise<{ ends: End[]; isAll: boolean }> {
  const found: End[] = [];
  let from = cursor.at;
  while (from < until && found.length <= limit) {
    const { ends, to } = await readNext(call, from, until);
    found.push(...ends.filter((end) => isAfter(end, cursor) && !cursor.told.has(hashOf(end.runId))));
    from = to;
  }
  return { ends: found, isAll: from >= until };
}

/** Reads the ends of the longest time that has not too many: all, or half of it, or half of that. */
async function readNext(call: Call, from: number, until: number): Promise<{ ends: End[]; to: number }> {
  const { client } = call.jobs;
  const { projectId, gone: signal } = call;
  const endedAfter = new Date(from);
  const filterTo = (to: number): JobFilter => ({ projectId, endedAfter, endedBefore: new Date(to) });
  let to = until;
  while (to - from > 1 && (await countJobs(client, filterTo(to), { signal })).total > MAX_READ) {
    to = from + Math.ceil((to - from) / 2);
  }
  const ends: End[] = [];
  const listed = listJobs(client, filterTo(to), { signal, pageSize: MAX_READ, isOfRuns: true });
  for await (const run of listed) ends.push(run as End);
  return { ends: ends.toSorted((a, b) => (isAfter(a, { at: timeOf(b), runId: b.runId }) ? 1 : -1)), to };
}

function isAfter(end: End, { at, runId }: Pick<Cursor, 'at' | 'runId'>): boolean {
  return timeOf(end) === at ? end.runId > runId : timeOf(end) > at;
}

function timeOf({ endedAt }: End): number {
  return Date.parse(endedAt);
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, HASH_CHARACTERS);
}

// A cursor as text. One of another project would leave ends out, one of another form may mean anything: it is refused.

function toCursor(projectId: string, { passAt, at, runId, told }: Cursor): string {
  return [VERSION, hashOf(projectId), passAt, at, runId, [...told].join('')].join('.');
}

function readCursor(projectId: string, text: string | null): Cursor {
  if (text === null) return { passAt: 0, at: 0, runId: '', told: new Set() };
  const [, version, hash, passAt, at, runId = '', told = ''] =
    /^(\d+)\.([\w-]+)\.(\d{1,14})\.(\d{1,14})\.([\w-]*)\.([\w-]*)$/.exec(text) ?? [];
  if (version === VERSION && hash === hashOf(projectId)) {
    return { passAt: Number(passAt), at: Number(at), runId, told: new Set(told.match(/.{11}/g)) };
  }
  throw new InvalidInputError('cursor', 'must be the nextCursor of a page of this project’s ends');
}
