/** What a caller of `visitorExport` may say, checked. Pure and safe in workflow code. */
import { DEFAULT_PRIORITY, type Priority, type VisitorExportRange, type VisitorExportRangeInput } from '../contract.js';
import { isDate } from './date-range.js';
import {
  checkId,
  checkObject,
  checkPriority,
  checkString,
  checkTimeZone,
  InvalidInputError,
  isGiven,
} from '../contract/input-checks.js';

/** A valid input of `visitorExport`, defaults filled in. */
export type ExportSpec =
  | { kind: 'range'; range: VisitorExportRange; secondScan: boolean; priority: Priority }
  | { kind: 'scheduled'; projectId: string; timeZone: string; days: number };

/** A year of days: each is an export of its own in one workflow. */
const MAX_DAYS = 366;

/** Checks the input of `visitorExport`; unknown fields are ignored, null means absent. Throws InvalidInputError. */
export function parseExportInput(input: unknown): ExportSpec {
  const fields = checkObject(input, 'input');
  const projectId = checkId(fields['projectId'], 'projectId');
  const isRange = isGiven(fields['dateFrom']) || isGiven(fields['dateTo']);
  if (isRange && isGiven(fields['timeZone'])) {
    throw new InvalidInputError('timeZone', 'must not be given together with dateFrom and dateTo');
  }
  if (!isRange && isGiven(fields['timeZone'])) {
    const timeZone = checkTimeZone(fields['timeZone'], 'timeZone');
    return { kind: 'scheduled', projectId, timeZone, days: checkDays(fields['days'] ?? 1) };
  }
  const dateFrom = checkDate(fields['dateFrom'], 'dateFrom');
  const dateTo = checkDate(fields['dateTo'], 'dateTo');
  if (dateTo <= dateFrom) {
    throw new InvalidInputError('dateTo', `must be later than dateFrom (it is exclusive): ${dateFrom}..${dateTo}`);
  }
  const secondScan = checkSecondScan(fields['secondScan'] ?? true);
  const priority = checkPriority(fields['priority'] ?? DEFAULT_PRIORITY);
  return { kind: 'range', range: { projectId, dateFrom, dateTo }, secondScan, priority };
}

/** The input of the export of a range, without what is the default: a worker of an earlier release ignores the rest. */
export function toRangeInput(
  range: VisitorExportRange,
  { secondScan, priority }: { secondScan: boolean; priority: Priority },
): VisitorExportRangeInput {
  return { ...range, ...(!secondScan && { secondScan }), ...(priority !== DEFAULT_PRIORITY && { priority }) };
}

function checkSecondScan(value: unknown): boolean {
  if (typeof value !== 'boolean') throw new InvalidInputError('secondScan', 'must be true or false');
  return value;
}

function checkDate(value: unknown, field: string): string {
  const date = checkString(value, field);
  if (!isDate(date)) throw new InvalidInputError(field, 'must be a date of the calendar, YYYY-MM-DD');
  return date;
}

function checkDays(value: unknown): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1 || value > MAX_DAYS) {
    throw new InvalidInputError('days', `must be a whole number from 1 to ${MAX_DAYS}`);
  }
  return value;
}
