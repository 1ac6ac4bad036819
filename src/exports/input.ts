/** What a caller of `visitorExport` may say, checked. Pure and safe in workflow code. */
import {
  DEFAULT_PRIORITY,
  type Priority,
  type ScheduledExportInput,
  type VisitorExportRange,
  type VisitorExportRangeInput,
} from '../contract.js';
import {
  checkObject,
  duration,
  FLAG,
  ID,
  isGiven,
  type Kind,
  type Kinds,
  NOTHING,
  optional,
  parseFields,
  PRIORITY,
  TEXT,
  TIME_ZONE,
  whole,
} from '../contract/kinds.js';
import { DAY_MS } from '../contract/shared.js';
import { InvalidInputError } from '../contract/errors.js';
import { isDate } from './date-range.js';

/** A valid input of `visitorExport`, defaults filled in. */
export type ExportSpec =
  | { kind: 'range'; range: VisitorExportRange; how: ExportHow }
  | { kind: 'scheduled'; projectId: string; timeZone: string; days: number };

/** How a date range is exported. */
export interface ExportHow {
  secondScan: boolean;
  priority: Priority;
  giveUpAfterMs: number;
}

export const DEFAULT_HOW: ExportHow = { secondScan: true, priority: DEFAULT_PRIORITY, giveUpAfterMs: DAY_MS };

/** A year of days: each is an export of its own in one workflow. */
const MAX_RANGE_DAYS = 366;

const DATE: Kind<string> = {
  check: (value, field) => {
    const date = TEXT.check(value, field);
    if (isDate(date)) return date;
    throw new InvalidInputError(field, 'must be a date of the calendar, YYYY-MM-DD');
  },
  schema: () => ({ type: 'string', format: 'date', pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' }),
};

/** The input of `visitorExport` that names a range. */
export const RANGE_EXPORT = {
  projectId: ID,
  dateFrom: DATE,
  dateTo: DATE,
  timeZone: NOTHING,
  secondScan: optional(FLAG, DEFAULT_HOW.secondScan),
  priority: optional(PRIORITY, DEFAULT_HOW.priority),
  giveUpAfter: optional(duration(), DEFAULT_HOW.giveUpAfterMs),
} satisfies Kinds<VisitorExportRangeInput & { timeZone: null }>;

/** The input of `visitorExport` that a Schedule gives. */
export const SCHEDULED_EXPORT = {
  projectId: ID,
  dateFrom: NOTHING,
  dateTo: NOTHING,
  timeZone: TIME_ZONE,
  days: optional(whole(1, MAX_RANGE_DAYS), 1),
} satisfies Kinds<ScheduledExportInput & { dateFrom: null; dateTo: null }>;

/** Checks the input of `visitorExport`; unknown fields are ignored, null means absent. Throws InvalidInputError. */
export function parseExportInput(input: unknown): ExportSpec {
  const fields = checkObject(input, 'input');
  ID.check(fields['projectId'], 'projectId');
  const isRange = isGiven(fields['dateFrom']) || isGiven(fields['dateTo']);
  if (isRange && isGiven(fields['timeZone'])) {
    throw new InvalidInputError('timeZone', 'must not be given together with dateFrom and dateTo');
  }
  if (isRange || !isGiven(fields['timeZone'])) return parseRange(fields);
  const { projectId, timeZone, days } = parseFields(SCHEDULED_EXPORT, fields);
  return { kind: 'scheduled', projectId, timeZone, days };
}

function parseRange(fields: Record<string, unknown>): ExportSpec {
  const { projectId, dateFrom, dateTo, giveUpAfter, ...how } = parseFields(RANGE_EXPORT, fields);
  if (dateTo <= dateFrom) {
    throw new InvalidInputError('dateTo', `must be later than dateFrom (it is exclusive): ${dateFrom}..${dateTo}`);
  }
  const range = { projectId, dateFrom, dateTo };
  const { secondScan, priority } = how;
  return { kind: 'range', range, how: { secondScan, priority, giveUpAfterMs: giveUpAfter } };
}

/** The input of the export of a range. */
export function toRangeInput(range: VisitorExportRange, how: ExportHow): VisitorExportRangeInput {
  const { secondScan, priority, giveUpAfterMs: giveUpAfter } = how;
  return { ...range, secondScan, priority, giveUpAfter };
}
