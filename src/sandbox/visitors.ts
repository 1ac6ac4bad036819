/** The visitor export: each row follows from seed, project, dates and position, so a million rows use no memory. */
import * as z from 'zod';
import { errorResponse, type HttpResponse, jsonResponse } from './http.js';
import { hashText, mix } from './random.js';

const entrySchema = z.strictObject({ path: z.string(), human: z.unknown(), ai: z.unknown(), total: z.unknown() });

/** The shape of the settings. */
export const visitorSettingsSchema = z.strictObject({
  /** Rows of every date range; default 120. */
  rows: z.int().min(0).optional(),
  /** Other numbers for another seed; default 1. */
  seed: z.int().optional(),
  /** The rows themselves, right or wrong, instead of generated ones; for every date range. */
  entries: z.array(entrySchema).optional(),
  /** The totals themselves, right or wrong. */
  totals: z.unknown().optional(),
});

/** What the visitor export shows; only numbers derived from seed, project and dates differ between date ranges. */
export type VisitorSettings = z.input<typeof visitorSettingsSchema>;

type Row = z.infer<typeof entrySchema>;

/** What a complete export of a date range must hold. */
export interface ExpectedSnapshot {
  rows: number;
  totals: unknown;
  entries: Row[];
}

interface DateRange {
  projectId: string;
  dateFrom: string;
  dateTo: string;
}

/** The rows of a date range; none is stored. */
interface Shown {
  count: number;
  row: (position: number) => Row;
  totals: unknown;
}

const DEFAULT_ROWS = 120;
const DEFAULT_PAGE_ROWS = 50;
const MAX_LIMIT = 250;

/** The visitors of all projects. */
export class Visitors {
  readonly #projects = new Map<string, VisitorSettings>();
  #others: VisitorSettings;

  constructor(settings: VisitorSettings) {
    this.#others = settings;
  }

  /** Replaces the settings of one project, or of all that have none of their own. */
  set(settings: VisitorSettings, projectId?: string): void {
    if (projectId === undefined) this.#others = settings;
    else this.#projects.set(projectId, settings);
  }

  page(projectId: string, query: URLSearchParams): HttpResponse {
    const number = (name: string, preset: number) => Number(query.get(name) ?? preset);
    const [limit, offset] = [number('limit', DEFAULT_PAGE_ROWS), number('offset', 0)];
    const isWhole = Number.isSafeInteger(limit) && Number.isSafeInteger(offset);
    if (!isWhole || limit < 1 || limit > MAX_LIMIT || offset < 0) {
      const details = [`limit must be a whole number from 1 to ${MAX_LIMIT}, offset one of at least 0`];
      return errorResponse('visitors', 400, 'Invalid query parameters', { details });
    }
    const dates = { dateFrom: query.get('dateFrom') ?? '', dateTo: query.get('dateTo') ?? '' };
    const { count, row, totals } = this.#shown({ projectId, ...dates });
    const size = Math.max(0, Math.min(limit, count - offset));
    const visitors = Array.from({ length: size }, (_, i) => row(offset + i));
    return jsonResponse(200, { totals, visitors, hasMore: offset + size < count });
  }

  expectedSnapshot(range: DateRange): ExpectedSnapshot {
    const { count, row, totals } = this.#shown(range);
    return { rows: count, totals, entries: Array.from({ length: count }, (_, position) => row(position)) };
  }

  #shown({ projectId, dateFrom, dateTo }: DateRange): Shown {
    const settings = this.#projects.get(projectId) ?? this.#others;
    const { entries, seed = 1, rows = DEFAULT_ROWS } = settings;
    const rangeSeed = hashText(`${seed}|${projectId}|${dateFrom}|${dateTo}`);
    const count = entries?.length ?? rows;
    const row = (position: number) => entries?.[position] ?? generatedRow(rangeSeed, position);
    return { count, row, totals: 'totals' in settings ? settings.totals : totalsOf(rangeSeed, count, row) };
  }
}

const PATHS = ['/', '/docs/', '/blog/', '/pricing/', '/products/', '/help/'];

function generatedRow(seed: number, position: number): Row {
  const hash = mix(seed + Math.imul(position, 0x9e3779b1));
  const [human, ai] = [hash & 1023, (hash >>> 10) & 255];
  const shared = (hash >>> 18) % (Math.min(human, ai) + 1);
  return { path: `${PATHS[position % PATHS.length]}${position}`, human, ai, total: human + ai - shared };
}

/** Up to 64 rows might contradict totals that follow from the number of rows alone. */
const FEW_ROWS = 64;

/** Plausible totals of a site whose visitors see several pages; few rows have the totals of their largest page. */
function totalsOf(seed: number, count: number, row: (position: number) => Row) {
  if (count > FEW_ROWS) {
    const [human, ai] = [count * (40 + (seed % 20)), count * (9 + (seed % 7))];
    return { human, ai, total: human + ai - Math.floor(ai / 3) };
  }
  const rows = Array.from({ length: count }, (_, position) => row(position));
  const largest = (name: 'human' | 'ai' | 'total') => Math.max(0, ...rows.map((one) => Number(one[name]) || 0));
  return { human: largest('human'), ai: largest('ai'), total: largest('total') };
}
