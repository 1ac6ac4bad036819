/** What the upstream's responses must hold to be believed. A message names the field and never quotes its value. */
import { isUtf8 } from 'node:buffer';
import { z } from 'zod';
import { encodeId, LIMIT, type JobRecord } from '../contract.js';
import type { ShownJob } from '../contract/write-outcome.js';
import { type EndStatuses, linksIn, shownJob } from './shown-job.js';
import type { VisitorPage } from './upstream.js';

/** A response that is not what the interface promises. */
export class MalformedResponseError extends Error {
  override readonly name = 'MalformedResponseError';
}

const NOT_AN_OBJECT = 'it is not a JSON object';
const vital = z.string({ error: ({ input }) => (input == null ? 'is missing' : 'is not a string') }).min(1, 'is empty');
/** A number that JSON may have rounded would be the id of another job. */
const asText = (id: unknown) => (Number.isSafeInteger(id) ? String(id) : id);
const vitalId = z.preprocess(asText, vital);
const textOrNull = z.string().nullable().catch(null);

const jobRecord = z.object(
  {
    id: vitalId,
    status: vital,
    source: z.object({ repository: textOrNull, ref: textOrNull }).nullable().catch(null),
    model: textOrNull,
    prLink: z.unknown().optional().transform(linksIn),
    createdAt: textOrNull,
    archivedAt: textOrNull,
  },
  NOT_AN_OBJECT,
);
const createdJob = jobRecord.extend({
  id: vitalId.refine(isUsableId, 'is not usable'),
  status: z.string().min(1).nullable().catch(null),
});

/** A record, with what it shows. */
export type ReadRecord = { job: JobRecord } & ShownJob;

/** The record of the job asked for, with the contract's fields and no others; throws MalformedResponseError. */
export function readJobRecord(body: Uint8Array, jobId: string, ends: EndStatuses): ReadRecord {
  const what = 'an agent job';
  const answer = parseJson(body, what);
  const own = recordsIn(answer).find(({ id }) => asText(id) === jobId) ?? answer;
  const record = limited(check(own, what, jobRecord));
  if (record.id !== jobId) throw malformedAs(what, 'it is that of another job');
  return withLinks(record, ends);
}

/** What in an answer has an id, first what has a status: some put the record into a field `job`. */
function recordsIn(answer: unknown): { id?: unknown; status?: unknown }[] {
  const records: { id?: unknown; status?: unknown }[] = [answer, (answer as { job?: unknown } | null)?.job].map(Object);
  const named = records.filter(({ id }) => id != null);
  return [...named.filter(({ status }) => status != null), ...named.filter(({ status }) => status == null)];
}

/** The record has one link, the last of them. */
function withLinks(record: z.infer<typeof jobRecord>, ends: EndStatuses): ReadRecord {
  return shownJob({ ...record, prLink: record.prLink.at(-1) ?? null }, record.prLink, ends);
}

/**
 * The job that a create made: only an id that further requests can name is vital. `located` is the one in its
 * `Location`; null without one. Throws MalformedResponseError, also if it is not clear which job it is.
 */
export function readCreatedJob(
  body: Uint8Array,
  located: string | null,
  ends: EndStatuses,
): { id: string; job: JobRecord | null } & Partial<ShownJob> {
  const what = 'an agent job';
  const answer = located === null ? parseJson(body, what) : jsonOrNull(body);
  const records = recordsIn(answer);
  if (located !== null && records.length === 0) return { id: located, job: null };
  const created = limited(check(records[0] ?? answer, what, createdJob));
  const { id, status } = created;
  const isOne = [...records.map((record) => asText(record.id)), located ?? id].every((one) => one === id);
  if (!isOne) throw malformedAs(what, 'it names two jobs');
  // In the order of a record that is read: records are compared as texts.
  return status === null ? { id, job: null } : { id, ...withLinks({ ...created, status }, ends) };
}

function limited<T extends object>(record: T): T {
  if (Buffer.byteLength(JSON.stringify(record)) <= LIMIT.recordBytes) return record;
  throw malformedAs('an agent job', 'it is over 64 KiB');
}

/** Whether requests can name a job by this id. */
export function isUsableId(id: string): boolean {
  if (id === '.' || id === '..' || id.trim() === '' || /\p{Cc}/u.test(id)) return false;
  try {
    return encodeId(id).length <= LIMIT.idBytes;
  } catch {
    return false; // A lone surrogate has no UTF-8 form.
  }
}

/** Some serializers write numbers as strings. */
const numberText = z
  .string()
  .regex(/^\d{1,16}(\.\d{1,16})?$/)
  .transform(Number);
const count = z
  .union([z.number(), numberText], 'is not a number')
  .pipe(z.number().min(0, 'is below 0').max(Number.MAX_SAFE_INTEGER, 'is over 2^53 - 1'));
const counts = { human: count, ai: count, total: count };
const visitorPage = z.object(
  {
    totals: z.object(counts, 'is not an object').nullable(),
    visitors: z.array(z.unknown(), 'is not a list').nullable(),
    hasMore: z.boolean('is not a boolean').nullish(),
  },
  NOT_AN_OBJECT,
);
const visitorRow = z.object({ path: z.string('is not a text'), ...counts }, 'is not an object');

const VISITOR_PAGE = 'a visitor page';
const NO_VISITORS = { human: 0, ai: 0, total: 0 };
/** A page with more malformed rows than each of these is none. */
const MAX_MALFORMED = { rows: 5, part: 1 / 20 };

/** A page of the visitor export that was asked for with this limit; throws MalformedResponseError. */
export function readVisitorPage(body: Uint8Array, limit: number): VisitorPage {
  const { totals, visitors, hasMore } = parseAs(body, VISITOR_PAGE, visitorPage);
  const rows = readRows(visitors ?? []);
  const hasVisitors = !totals || totals.human + totals.ai + totals.total > 0;
  if (visitors === null && hasVisitors) throw malformedAs(VISITOR_PAGE, 'visitors is null, and totals is not 0');
  if (totals === null && (rows.length > 0 || hasMore))
    throw malformedAs(VISITOR_PAGE, 'totals is null, and there are rows');
  if (hasMore == null && rows.length >= limit)
    throw malformedAs(VISITOR_PAGE, `hasMore is ${hasMore}, and the page is full`);
  const readAs = [
    ...(visitors === null ? ['visitors: null as no rows'] : []),
    ...(totals === null ? ['totals: null as 0'] : []),
    ...(hasMore == null ? [`hasMore: ${hasMore} as the last page`] : []),
  ];
  const page = { totals: totals ?? NO_VISITORS, visitors: rows, hasMore: hasMore ?? false };
  return readAs.length > 0 ? { ...page, readAs } : page;
}

/** One by one: zod notes all that is wrong in a list, and millions of wrong rows would take the whole memory. */
function readRows(sent: unknown[]): VisitorPage['visitors'] {
  const most = Math.max(MAX_MALFORMED.rows, sent.length * MAX_MALFORMED.part);
  const malformed: string[] = [];
  return sent.map((row, index) => {
    const { data, error } = visitorRow.safeParse(row);
    if (!error) return data;
    const { path, message: fault } = error.issues[0]!;
    const field = path.join('.') || 'row';
    malformed.push(`visitors.${index}: ${field} ${fault}`);
    if (malformed.length > most) {
      throw malformedAs(
        VISITOR_PAGE,
        `more than ${Math.floor(most)} of ${sent.length} rows are malformed, first ${malformed[0]}`,
      );
    }
    return { malformed: row, field, fault };
  });
}

function parseAs<T>(body: Uint8Array, what: string, schema: z.ZodType<T>): T {
  return check(parseJson(body, what), what, schema);
}

function check<T>(value: unknown, what: string, schema: z.ZodType<T>): T {
  const { data, error } = schema.safeParse(value);
  if (!error) return data;
  const { path, message } = error.issues[0]!;
  throw malformedAs(what, [path.join('.'), message].join(' ').trim());
}

function parseJson(body: Uint8Array, what: string): unknown {
  if (body.length === 0) throw malformedAs(what, 'it is empty');
  // A replaced byte could turn one id into another.
  if (!isUtf8(body)) throw malformedAs(what, 'it is not UTF-8');
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    throw malformedAs(what, 'it is not JSON');
  }
}

function jsonOrNull(body: Uint8Array): unknown {
  try {
    return parseJson(body, '');
  } catch {
    return null;
  }
}

function malformedAs(what: string, why: string): MalformedResponseError {
  return new MalformedResponseError(`answer is not ${what}: ${why}`);
}
