/** The rows of a visitor export: what they can be set to, and each row computed from its position. */
import * as z from 'zod';
import { hashText, mix } from './random.js';

const milliseconds = z.number().min(0);
const position = z.int().min(0);
const oddKind = z.enum(['null', 'negative', 'fraction', 'huge', 'text']);

const driftEventSchema = z.strictObject({
  /**
   * `swap`: a row is deleted, another is added at the end, the totals stay. `delete`: a row is deleted. `insert`: a row
   * is added at the front. `totals`: the totals grow. `rotate`: the first row becomes the last.
   */
  kind: z.enum(['swap', 'delete', 'insert', 'totals', 'rotate']),
  /** Happens right before the response to a page at this offset or later; default 1, so never before a first page. */
  atOffset: position.optional(),
  /** Which row goes, counted from 0; default 0. */
  index: position.optional(),
  /** How often it happens, once per page; default 1. */
  times: z.int().min(1).optional(),
});

/** A change of the data between two pages of one export. */
export type DriftEvent = z.input<typeof driftEventSchema>;

const entrySchema = z.strictObject({
  path: z.string(),
  human: z.unknown(),
  ai: z.unknown(),
  total: z.unknown(),
});

export const visitorSettingsSchema = z.strictObject({
  /** Rows of every date range; default 120. */
  rows: z.int().min(0).optional(),
  /** Other numbers for another seed; default 1. */
  seed: z.int().optional(),
  /** `plain` (default) paths are ASCII; `unicode` ones hold scripts, quotes, emoji and combining marks. */
  paths: z.enum(['plain', 'unicode']).optional(),
  /** The rows themselves, instead of generated ones; for every date range. */
  entries: z.array(entrySchema).optional(),
  /** The totals themselves, whatever they are. */
  totals: z.unknown().optional(),
  /** IANA name of the zone in which the upstream's days lie; default UTC. */
  timeZone: z.string().optional(),
  /** How long after the end of a date range rows and counts still arrive; default 0. */
  lateMs: milliseconds.optional(),
  /** While data arrive, they change in steps of this length; default one minute. */
  arrivalStepMs: z.number().positive().optional(),
  /** Rows with equal totals, in groups of this size, change places with each request. */
  shuffleTies: z.int().min(2).optional(),
  /** Every nth row has an odd count of this kind in `human`. */
  oddCounts: z.strictObject({ kind: oddKind, every: z.int().min(1) }).optional(),
  /** The row at this index carries the path of the row before it. */
  repeatedPathAt: z.int().min(1).optional(),
  /** `hasMore` never becomes false: past the end come empty pages, or the last row again and again. */
  endlessHasMore: z.enum(['empty', 'repeat']).optional(),
  /** A page that begins at or past this offset is empty and says `hasMore: true`, so often. */
  emptyPage: z.strictObject({ atOffset: position, times: z.int().min(1) }).optional(),
  /** At most so many rows a page, whatever the limit. */
  shortPages: z.int().min(1).optional(),
  drift: z.array(driftEventSchema).optional(),
});

/** What the visitor export shows; only numbers derived from seed, project and dates differ between date ranges. */
export type VisitorSettings = z.input<typeof visitorSettingsSchema>;

type OddKind = z.infer<typeof oddKind>;

/** Rows added, deleted or moved by drift; small, whatever the number of rows. */
export interface RowEdits {
  /** Original indexes that are gone, ascending. */
  deleted: number[];
  /** Rows added at the front and at the end. */
  front: number;
  end: number;
  /** How many rows have moved from the front to the end. */
  rotation: number;
  totals: number;
}

/** The rows of a date range at one moment; each row is computed from its position, so none is stored. */
export interface RowView {
  settings: VisitorSettings;
  seed: number;
  /** Part of the data that has arrived, 0 to 1. */
  arrived: number;
  edits: RowEdits;
  /** Moves rows of equal totals. */
  shuffle: number;
}

interface Row {
  path: string;
  human: unknown;
  ai: unknown;
  total: unknown;
}

const PLAIN = ['/', '/docs/', '/blog/', '/pricing/', '/products/', '/help/'];
const UNICODE = [
  '/страница/',
  '/日本語/',
  '/café/',
  '/cafe\u0301/',
  '/🚀/',
  '/"quoted"/',
  '/back\\slash/',
  '/عربى/',
  '/a%2Fb/',
  '/tab\t/',
];
const UNICODE_JSON = UNICODE.map((start) => JSON.stringify(start).slice(1, -1));

const ODD: Record<OddKind, unknown> = { null: null, negative: -1, fraction: 12.5, huge: 2 ** 53, text: '12' };

export function rangeSeed(settings: VisitorSettings, projectId: string, from: string, to: string): number {
  return hashText(`${settings.seed ?? 1}|${projectId}|${from}|${to}`);
}

/** The number of rows at this moment. */
export function rowCount({ settings, arrived, edits }: RowView): number {
  const all = settings.entries?.length ?? settings.rows ?? 120;
  const base = all - edits.deleted.length;
  return edits.front + Math.floor(base * arrived) + (arrived < 1 ? 0 : edits.end);
}

/** Date ranges of at most this many rows compute their totals from the rows. */
const FEW_ROWS = 64;

/**
 * The totals as JSON: plausible for a site whose visitors see several pages, and never in contradiction to the rows.
 */
export function totalsJson(view: RowView): string {
  const { settings, arrived, edits } = view;
  if (settings.totals !== undefined) return JSON.stringify(settings.totals);
  const all = settings.entries?.length ?? settings.rows ?? 120;
  // Rows arrive one after the other while their counts grow.
  const shown = Math.floor(all * arrived);
  if (settings.entries !== undefined || shown <= FEW_ROWS) return largestJson(view, shown);
  const human = Math.floor(shown * (40 + (view.seed % 20)) * arrived) + edits.totals;
  const ai = Math.floor(shown * (9 + (view.seed % 7)) * arrived);
  return `{"human":${human},"ai":${ai},"total":${human + ai - Math.floor(ai / 3)}}`;
}

/** The totals of a site all of whose visitors have seen its largest page. */
function largestJson(view: RowView, shown: number): string {
  const largest = { human: 0, ai: 0, total: 0 };
  for (let index = 0; index < shown; index++) {
    const row = JSON.parse(originalRow(view, index)) as Row;
    for (const count of ['human', 'ai', 'total'] as const) {
      largest[count] = Math.max(largest[count], typeof row[count] === 'number' ? row[count] : 0);
    }
  }
  largest.human += view.edits.totals;
  return JSON.stringify({ ...largest, total: Math.max(largest.total, largest.human) });
}

/** The rows from `start` to before `end` as elements of a JSON array, without brackets; empty where there are none. */
export function rowsJson(view: RowView, start: number, end: number): string {
  let text = '';
  for (let position = start; position < end; position++) {
    text += (position === start ? '' : ',') + rowJson(view, position);
  }
  return text;
}

/** A row as an object. */
export function rowAt(view: RowView, position: number): Row {
  return JSON.parse(rowJson(view, position)) as Row;
}

function rowJson(view: RowView, position: number): string {
  const { edits } = view;
  const count = rowCount(view);
  let at = edits.rotation === 0 ? position : (position + edits.rotation) % count;
  if (at < edits.front) return addedRow('front', edits.front - at, view);
  at -= edits.front;
  const lastBase = count - edits.front - (view.arrived < 1 ? 0 : edits.end);
  if (at >= lastBase) return addedRow('end', at - lastBase + 1, view);
  return originalRow(view, originalIndex(tied(view, at, lastBase), edits.deleted));
}

function addedRow(where: string, number: number, view: RowView): string {
  return numbers(`/added/${where}/${number}`, mix(view.seed + 0x517c + number), 1);
}

/** Turns the rows within each group of equal totals by one place per request. */
function tied({ settings, shuffle }: RowView, at: number, count: number): number {
  const size = settings.shuffleTies;
  if (size === undefined) return at;
  const start = at - (at % size);
  const group = Math.min(size, count - start);
  return start + ((at - start + shuffle) % group);
}

function originalIndex(at: number, deleted: number[]): number {
  let index = at;
  for (const gone of deleted) {
    if (gone > index) break;
    index++;
  }
  return index;
}

function originalRow(view: RowView, index: number): string {
  const { settings, seed, arrived } = view;
  const entry = settings.entries?.[index];
  if (entry) return JSON.stringify(entry);
  const named = index === settings.repeatedPathAt ? index - 1 : index;
  const path = pathJson(settings, named);
  const odd = settings.oddCounts;
  if (odd && index % odd.every === 0) {
    return `{"path":"${path}","human":${JSON.stringify(ODD[odd.kind])},"ai":1,"total":20}`;
  }
  const size = settings.shuffleTies;
  if (size !== undefined) return tiedRow(path, Math.floor(index / size), view);
  return numbers(path, mix(seed + Math.imul(index, 0x9e3779b1)), arrived);
}

function tiedRow(path: string, group: number, { settings }: RowView): string {
  const total = Math.max(1, (settings.rows ?? 120) - group);
  return `{"path":"${path}","human":${total},"ai":${group & 1},"total":${total}}`;
}

function pathJson(settings: VisitorSettings, index: number): string {
  if (settings.paths === 'unicode') return (UNICODE_JSON[index % UNICODE_JSON.length] ?? '/') + index;
  return (PLAIN[index % PLAIN.length] ?? '/') + index;
}

function numbers(path: string, hash: number, arrived: number): string {
  const human = Math.floor((hash & 1023) * arrived);
  const ai = Math.floor(((hash >>> 10) & 255) * arrived);
  const shared = (hash >>> 18) % (Math.min(human, ai) + 1);
  return `{"path":"${path}","human":${human},"ai":${ai},"total":${human + ai - shared}}`;
}
