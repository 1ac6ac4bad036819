/**
 * What the upstream's responses must hold to be believed. Checked by hand: a page has 250 rows, and a schema library
 * costs more per row than parsing the JSON does.
 */
import { isUtf8 } from 'node:buffer';
import { encodeId, LIMIT, type JobRecord, type VisitorTotals } from '../contract.js';
import { isObject } from '../contract/shared.js';
import type { VisitorPage } from './upstream.js';

/** An response that is not what the interface promises; the message says what is wrong, without quoting it. */
export class InvalidResponseError extends Error {
  override readonly name = 'InvalidResponseError';
  /** Whether it is a JSON object with a wrong field: no broken answer, but another interface. */
  readonly isWrongField: boolean;
  constructor(message: string, isWrongField: boolean) {
    super(message);
    this.isWrongField = isWrongField;
  }
}

/** The record of the job asked for, with the contract's fields and no others; throws InvalidResponseError. */
export function readJobRecord(body: Uint8Array, jobId: string): JobRecord {
  const response = readObject(body, 'agent job');
  const record = jobRecord(response, vital(response, 'status'));
  if (record.id !== jobId) throw malformed('agent job', 'it is that of another job');
  return record;
}

/** The job that a create made: only an id that further requests can name is vital; throws InvalidResponseError. */
export function readCreatedJob(body: Uint8Array): { id: string; job: JobRecord | null } {
  const response = readObject(body, 'agent job');
  const id = vital(response, 'id');
  if (!isUsableId(id)) throw malformed('agent job', 'its id is not usable');
  const { status } = response;
  const hasStatus = typeof status === 'string' && status !== '';
  const job = jobRecord(response, hasStatus ? status : '');
  return { id, job: hasStatus ? job : null };
}

function jobRecord(response: Record<string, unknown>, status: string): JobRecord {
  const record: JobRecord = {
    id: vital(response, 'id'),
    status,
    source: readSource(response['source']),
    model: textOrNull(response['model']),
    prLink: textOrNull(response['prLink']),
    createdAt: textOrNull(response['createdAt']),
    archivedAt: textOrNull(response['archivedAt']),
  };
  if (Buffer.byteLength(JSON.stringify(record)) > LIMIT.recordBytes) throw malformed('agent job', 'it is over 64 KiB');
  return record;
}

/** A page of the visitor export; throws InvalidResponseError. */
export function readVisitorPage(body: Uint8Array): VisitorPage {
  const page = readObject(body, 'visitor page');
  const { visitors, hasMore } = page;
  if (!Array.isArray(visitors)) throw wrongField('visitors is not a list');
  if (typeof hasMore !== 'boolean') throw wrongField('hasMore is not a boolean');
  return { totals: readCounts(page['totals'], 'totals'), visitors: visitors.map(readRow), hasMore };
}

function readRow(row: unknown): VisitorPage['visitors'][number] {
  const { human, ai, total } = readCounts(row, 'a row of visitors');
  const { path } = row as { path?: unknown };
  if (typeof path !== 'string') throw wrongField('path of a row of visitors is not a string');
  return { path, human, ai, total };
}

function readCounts(value: unknown, where: string): VisitorTotals {
  const counts = (value ?? {}) as Record<keyof VisitorTotals, unknown>;
  const count = (name: keyof VisitorTotals) => {
    const given = counts[name];
    // Some serializers write whole numbers as strings.
    const number = typeof given === 'string' && /^\d{1,16}$/.test(given) ? Number(given) : given;
    if (typeof number === 'number' && number >= 0 && number <= Number.MAX_SAFE_INTEGER) return number;
    throw wrongField(`${name} of ${where} is not a number from 0 to 2^53-1`);
  };
  return { human: count('human'), ai: count('ai'), total: count('total') };
}

function readSource(value: unknown): JobRecord['source'] {
  if (!isObject(value)) return null;
  return { repository: textOrNull(value['repository']), ref: textOrNull(value['ref']) };
}

function vital(response: Record<string, unknown>, field: string): string {
  const value = response[field];
  if (value === undefined || value === null) throw malformed('agent job', `${field} is missing`);
  if (typeof value !== 'string') throw malformed('agent job', `${field} is not a string`);
  if (value === '') throw malformed('agent job', `${field} is empty`);
  return value;
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

function isUsableId(id: string): boolean {
  if (id === '.' || id === '..' || /\p{Cc}/u.test(id)) return false;
  try {
    return encodeId(id).length <= LIMIT.idBytes;
  } catch {
    return false; // A lone surrogate has no UTF-8 form.
  }
}

function readObject(body: Uint8Array, what: string): Record<string, unknown> {
  const value = parseJson(body, what);
  if (!isObject(value)) throw malformed(what, 'it is not a JSON object');
  return value;
}

function parseJson(body: Uint8Array, what: string): unknown {
  if (body.length === 0) throw malformed(what, 'it is empty');
  // A replaced byte could turn one id into another.
  if (!isUtf8(body)) throw malformed(what, 'it is not UTF-8');
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    throw malformed(what, 'it is not JSON');
  }
}

function malformed(what: string, why: string, isWrongField = false): InvalidResponseError {
  return new InvalidResponseError(`answer is not ${what === 'agent job' ? 'an' : 'a'} ${what}: ${why}`, isWrongField);
}

function wrongField(why: string): InvalidResponseError {
  return malformed('visitor page', why, true);
}
