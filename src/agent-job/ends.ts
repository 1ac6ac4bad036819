/**
 * Decides when an end of the upstream counts: one that may come too early must stand first. Also what shows that a
 * follow-up was worked on. Pure, for workflow and activities alike. Times in milliseconds.
 */
import type { JobRecord, TerminalStatus } from '../contract.js';

/** What a good poll showed, as far as ends are compared by it. */
export interface SeenEnd {
  /** Null if the status ends nothing. */
  end: TerminalStatus | null;
  prLink: string | null;
}

/** An end that a poll showed, and that no poll has contradicted since. */
export interface EndCandidate {
  end: TerminalStatus;
  prLink: string | null;
  /** When a poll first showed it, by the workflow's time. */
  since: number;
  /** It counts: it need not stand, or it has stood. */
  hasStood: boolean;
}

/** What a batch of polls must know to judge an end. */
export interface EndRules {
  candidate: EndCandidate | null;
  /** How long an end must stand that may come too early. */
  settleMs: number;
  /** Follow-ups of this run that were accepted, or given up as unknown: after the first, every end must stand. */
  followUpsTaken: number;
  /** When a poll first took the last end back; see `Unrest`. */
  brokenAt: number | null;
}

/** What a poll showed of a job. */
export function seenEnd({ job, end }: { job: JobRecord; end: TerminalStatus | null }): SeenEnd {
  return { end, prLink: job.prLink };
}

/** Whether two polls showed the same. */
export function isSameEnd(one: SeenEnd, other: SeenEnd | null): boolean {
  return other !== null && one.end === other.end && one.prLink === other.prLink;
}

/**
 * Whether what a good read showed counts; it began at `begunAt`. An end that counts ends the job. A status without an
 * end counts once it has stood after an end: then the job goes on.
 */
export function endCounts(seen: SeenEnd, begunAt: number, rules: EndRules): boolean {
  const { candidate, settleMs, followUpsTaken, brokenAt } = rules;
  if (seen.end === null) return brokenAt !== null && begunAt >= brokenAt + settleMs;
  const mayBeTooEarly = followUpsTaken > 0 || (seen.end === 'completed' && seen.prLink === null);
  if (!mayBeTooEarly || settleMs === 0) return true;
  return candidate !== null && isSameEnd(seen, candidate) && begunAt >= candidate.since + settleMs;
}

/** The candidate after a good poll; `counts` says whether the end in it counts. */
export function candidateAfter(
  before: EndCandidate | null,
  { end, prLink }: SeenEnd,
  { counts, now }: { counts: boolean; now: number },
): EndCandidate | null {
  if (end === null) return null;
  if (before === null || !isSameEnd(before, { end, prLink })) return { end, prLink, since: now, hasStood: counts };
  return { ...before, hasStood: before.hasStood || counts };
}

/** How long an end has stood, and for how long it must still stand. */
export interface Standing {
  forMs: number;
  leftMs: number;
}

/** The standing of a candidate; undefined if none must stand. */
export function standingOf(
  { candidate, settleMs }: Pick<EndRules, 'candidate' | 'settleMs'>,
  now: number,
): Standing | undefined {
  if (!candidate || candidate.hasStood) return undefined;
  const forMs = Math.max(0, now - candidate.since);
  return { forMs, leftMs: Math.max(0, settleMs - forMs) };
}

/** An upstream that changes between ends and other answers, none of which stands. */
export interface Unrest {
  /** When a poll showed its first end. */
  since: number;
  /** The number of times that an end was contradicted since. */
  changes: number;
  /** The last end that a poll showed. */
  last: EndCandidate;
  /** When a poll first contradicted that end by a status that ends nothing; null if none did. */
  brokenAt: number | null;
}

/** After ten times `settle` an upstream that goes on changing is believed its last end. */
const MAX_UNREST = 10;
/** One change is a job that goes on. */
const MIN_CHANGES = 2;

/** The unrest after a good poll. A status without an end that has stood for `settle` is no unrest: the job goes on. */
export function unrestAfter(
  before: Unrest | null,
  seen: SeenEnd,
  candidate: EndCandidate | null,
  { counts, now }: { counts: boolean; now: number },
): Unrest | null {
  if (counts && seen.end === null) return null;
  if (before === null) return candidate && { since: now, changes: 0, last: candidate, brokenAt: null };
  const { since, last, brokenAt } = before;
  const isContradicted = brokenAt === null && !isSameEnd(seen, last);
  const changes = before.changes + (isContradicted ? 1 : 0);
  if (candidate) return { since, changes, last: candidate, brokenAt: null };
  return { since, changes, last, brokenAt: brokenAt ?? now };
}

/** Whether the last end counts because the upstream would go on changing for ever; never without `settle`. */
export function isEndless({ since, changes }: Unrest, settleMs: number, now: number): boolean {
  return settleMs > 0 && changes >= MIN_CHANGES && now - since >= MAX_UNREST * settleMs;
}

/** What shows that the last follow-up was worked on. */
export interface WorkSigns {
  /** What the last poll before the message showed; null if there was none. */
  before: SeenEnd | null;
  /** What the first poll after the message showed; null before it. */
  first: SeenEnd | null;
  sawWork: boolean;
}

/**
 * What is known when a follow-up was accepted; null if the last poll before it showed a status without an end: then no
 * poll can show whose work it is.
 */
export function workSigns(before: SeenEnd | null): WorkSigns | null {
  return before !== null && before.end === null ? null : { before, first: null, sawWork: false };
}

/** The same after a further poll: a status without an end is a sign of work, and an end that is another one. */
export function workSignsAfter({ before, first, sawWork }: WorkSigns, seen: SeenEnd): WorkSigns {
  const isOther = (known: SeenEnd | null) => known !== null && !isSameEnd(seen, known);
  return { before, first: first ?? seen, sawWork: sawWork || seen.end === null || isOther(before) || isOther(first) };
}
