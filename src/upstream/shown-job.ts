/** Decides what a record of the upstream means: which end its status names, and which links it holds. */
import { TERMINAL_STATUSES, type JobRecord, type TerminalStatus } from '../contract.js';
import { statusWord } from '../contract/shared.js';
import type { ShownJob } from '../contract/write-outcome.js';

/** Further words of the upstream that end a job, in lower case. */
export type EndStatuses = ReadonlyMap<string, TerminalStatus>;

const NAMED_ENDS: EndStatuses = new Map(TERMINAL_STATUSES.map((status) => [status, status]));
/** The one status of the interface that ends nothing. */
const ACTIVE = 'active';

/** A record, with what it means. */
export function shownJob(
  job: JobRecord,
  links: readonly string[],
  further: EndStatuses,
): { job: JobRecord } & ShownJob {
  const word = statusWord(job.status);
  const end = NAMED_ENDS.get(word) ?? further.get(word) ?? null;
  const isUnknownStatus = end === null && word !== ACTIVE;
  return { job, end, ...(isUnknownStatus && { isUnknownStatus }), ...(links.length > 1 && { prLinks: links }) };
}

/** A link may lie in lists and objects to this depth. */
const MAX_LINK_DEPTH = 4;

/** The links in the field `prLink`: a text that is not blank, or the addresses in a list or an object, each once. */
export function linksIn(prLink: unknown): string[] {
  if (typeof prLink === 'string') return prLink.trim() === '' ? [] : [prLink];
  return [...new Set(addressesIn(prLink, MAX_LINK_DEPTH))];
}

function addressesIn(value: unknown, depth: number): string[] {
  if (typeof value === 'string') return /^https?:\/\/\S+$/i.test(value) ? [value] : [];
  if (typeof value !== 'object' || value === null || depth === 0) return [];
  return Object.values(value).flatMap((inner) => addressesIn(inner, depth - 1));
}
