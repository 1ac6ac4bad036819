import { createHash } from 'node:crypto';
import { errorResponse, type HttpResponse } from './http.js';
import { parseZonedDate, zonedDate, type SandboxClock } from './clock.js';
import {
  rangeSeed,
  rowAt,
  rowCount,
  rowsJson,
  totalsJson,
  type DriftEvent,
  type RowEdits,
  type RowView,
  type VisitorSettings,
} from './visitor-rows.js';

/** What a complete export of a date range must hold once all its data have arrived, drift so far included. */
export interface ExpectedSnapshot {
  rows: number;
  totals: unknown;
  /** SHA-256 (hex) of the lines `path\thuman\tai\ttotal\n`, sorted by their UTF-16 code units. */
  digest: string;
  /** Whether the pages show this now. */
  settled: boolean;
  /** ISO 8601. */
  settlesAt: string;
  /** All rows in order, where there are at most 10,000. */
  entries?: { path: string; human: unknown; ai: unknown; total: unknown }[];
}

interface Project {
  settings: VisitorSettings;
  /** How often each drift event, and the empty page, still happens. */
  driftLeft: number[];
  emptyLeft: number;
  /** By project and date range; new settings clear it. */
  edits: Map<string, RowEdits>;
}

interface DateRange {
  dateFrom: string;
  dateTo: string;
  from: number;
  to: number;
}

const DAY_MS = 86_400_000;
const MAX_LISTED_ROWS = 10_000;
const DEFAULT_LIMIT = 50;
const MAX_PAGE_ROWS = 250;

/** The visitor export: pages computed from seed, project, dates and position, at constant memory. */
export class Visitors {
  readonly #clock: SandboxClock;
  readonly #projects = new Map<string, Project>();
  #fallback: Project;
  #requests = 0;

  constructor(clock: SandboxClock, settings: VisitorSettings) {
    this.#clock = clock;
    this.#fallback = armed(settings);
  }

  /** Replaces the settings of one project, or of all that have none of their own; drift so far is forgotten. */
  set(settings: VisitorSettings, projectId?: string): void {
    if (projectId === undefined) this.#fallback = armed(settings);
    else this.#projects.set(projectId, armed(settings));
  }

  page(projectId: string, query: URLSearchParams): HttpResponse {
    const project = this.#projectOf(projectId);
    const wrong: string[] = [];
    const range = this.#dateRange(project, query.get('dateFrom'), query.get('dateTo'), wrong);
    const limit = whole(query, 'limit', DEFAULT_LIMIT, 1, MAX_PAGE_ROWS, wrong);
    const offset = whole(query, 'offset', 0, 0, Number.MAX_SAFE_INTEGER, wrong);
    if (wrong.length > 0) return errorResponse('visitors', 400, 'Invalid query parameters', { details: wrong });
    this.#drift(project, projectId, range, offset);
    const view = this.#view(project, projectId, range, ++this.#requests);
    return { status: 200, body: pageJson(project, view, offset, limit) };
  }

  expectedSnapshot(projectId: string, dateFrom: string, dateTo: string): ExpectedSnapshot {
    const project = this.#projectOf(projectId);
    const wrong: string[] = [];
    const range = this.#dateRange(project, dateFrom, dateTo, wrong);
    if (wrong.length > 0) throw new Error(wrong.join('; '));
    const view = { ...this.#view(project, projectId, range, 0), arrived: 1 };
    const settlesAt = range.to + (project.settings.lateMs ?? 0);
    return {
      ...digestOf(view),
      totals: JSON.parse(totalsJson(view)) as unknown,
      settled: this.#clock.now() >= settlesAt,
      settlesAt: new Date(settlesAt).toISOString(),
    };
  }

  #projectOf(projectId: string): Project {
    return this.#projects.get(projectId) ?? this.#fallback;
  }

  #dateRange({ settings }: Project, from: string | null, to: string | null, wrong: string[]): DateRange {
    const timeZone = settings.timeZone ?? 'UTC';
    const dateTo = to ?? zonedDate(this.#clock.now() + DAY_MS, timeZone);
    const end = parseZonedDate(dateTo, timeZone);
    if (end === undefined) wrong.push('dateTo must be a date in ISO 8601 or YYYY-MM-DD format');
    const dateFrom = from ?? zonedDate((end ?? 0) - 30 * DAY_MS, timeZone);
    const start = parseZonedDate(dateFrom, timeZone);
    if (start === undefined) wrong.push('dateFrom must be a date in ISO 8601 or YYYY-MM-DD format');
    return { dateFrom, dateTo, from: start ?? 0, to: end ?? 0 };
  }

  #view({ settings, edits }: Project, projectId: string, range: DateRange, shuffle: number): RowView {
    return {
      settings,
      seed: rangeSeed(settings, projectId, range.dateFrom, range.dateTo),
      arrived: this.#arrived(settings, range),
      edits: edits.get(rangeKey(projectId, range)) ?? NO_EDITS,
      shuffle,
    };
  }

  /** The part that has arrived, 0 to 1: evenly from the start of the range until it has settled, in steps. */
  #arrived(settings: VisitorSettings, { from, to }: DateRange): number {
    const settled = to + (settings.lateMs ?? 0);
    const now = this.#clock.now();
    if (now >= settled || to <= from) return 1;
    const step = settings.arrivalStepMs ?? 60_000;
    return Math.max(0, Math.min(1, (Math.floor(now / step) * step - from) / (settled - from)));
  }

  #drift(project: Project, projectId: string, range: DateRange, offset: number): void {
    (project.settings.drift ?? []).forEach((event, i) => {
      const left = project.driftLeft[i] ?? 0;
      if (left === 0 || offset < (event.atOffset ?? 1)) return;
      project.driftLeft[i] = left - 1;
      const key = rangeKey(projectId, range);
      const edits = project.edits.get(key) ?? structuredClone(NO_EDITS);
      project.edits.set(key, edits);
      applyDrift(event, edits);
    });
  }
}

const NO_EDITS: RowEdits = { deleted: [], front: 0, end: 0, rotation: 0, totals: 0 };

function rangeKey(projectId: string, { dateFrom, dateTo }: DateRange): string {
  return `${projectId}|${dateFrom}|${dateTo}`;
}

function armed(settings: VisitorSettings): Project {
  return {
    settings,
    driftLeft: (settings.drift ?? []).map((event) => event.times ?? 1),
    emptyLeft: settings.emptyPage?.times ?? 0,
    edits: new Map(),
  };
}

function applyDrift(event: DriftEvent, edits: RowEdits): void {
  if (event.kind === 'swap' || event.kind === 'delete') {
    let index = event.index ?? 0;
    for (const gone of edits.deleted) if (gone <= index) index++;
    edits.deleted = [...edits.deleted, index].toSorted((a, b) => a - b);
  }
  if (event.kind === 'swap') edits.end++;
  if (event.kind === 'insert') edits.front++;
  if (event.kind === 'totals') edits.totals++;
  if (event.kind === 'rotate') edits.rotation++;
}

function whole(
  query: URLSearchParams,
  name: string,
  preset: number,
  min: number,
  max: number,
  wrong: string[],
): number {
  const text = query.get(name);
  if (text === null) return preset;
  const value = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
  wrong.push(`${name} must be a whole number ${range}`);
  return preset;
}

function pageJson(project: Project, view: RowView, offset: number, limit: number): string {
  const { shortPages, endlessHasMore, emptyPage } = project.settings;
  const count = rowCount(view);
  if (emptyPage && project.emptyLeft > 0 && offset >= emptyPage.atOffset) {
    project.emptyLeft--;
    return `{"totals":${totalsJson(view)},"visitors":[],"hasMore":true}`;
  }
  const end = Math.min(offset + Math.min(limit, shortPages ?? limit), count);
  const repeats = endlessHasMore === 'repeat' && offset >= count && count > 0;
  const rows = repeats ? rowsJson(view, count - 1, count) : rowsJson(view, offset, end);
  const hasMore = endlessHasMore !== undefined || end < count;
  return `{"totals":${totalsJson(view)},"visitors":[${rows}],"hasMore":${hasMore}}`;
}

function digestOf(view: RowView): Pick<ExpectedSnapshot, 'rows' | 'digest' | 'entries'> {
  const rows = rowCount(view);
  const entries = Array.from({ length: rows }, (_, position) => rowAt(view, position));
  const lines = entries.map(({ path, human, ai, total }) => `${[path, human, ai, total].join('\t')}\n`).toSorted();
  const hash = createHash('sha256');
  for (const line of lines) hash.update(line);
  return { rows, digest: hash.digest('hex'), ...(rows <= MAX_LISTED_ROWS && { entries }) };
}
