/**
 * What the polls of a job have shown, by the promises of docs/contract.md: which end counts, which links were seen,
 * whether a follow-up was worked on, and whether the job is lost. It does not depend on the code. The order of a poll
 * and a write whose results reach the run in one task is not defined: so it holds all that may be known. Times are in
 * milliseconds.
 */

export class BrokenPromise extends Error {}

export type End = 'completed' | 'archived' | 'failed';

/** A record of the upstream, as it was sent. */
export interface SentRecord {
  status: string;
  prLink: unknown;
}

/** What the upstream responded to a poll: `page` and `page404` came from something on the way. */
export type PollResponse =
  { kind: 'record'; record: SentRecord } | { kind: 'notFound' | 'page404' | 'failed'; retryAfterMs?: number };

/** What a state or a result shows of the polls. */
export interface ShownPolls {
  job: { status: string; prLink: string | null } | null;
  prLink: string | null;
  prLinks: string[];
  sawWork: boolean | null;
  waiting?: { for: string; since: string; until?: string; reason?: string } | null;
}

/** What ends are compared by. */
interface Seen {
  end: End | null;
  prLink: string | null;
}

/** Good polls in a row that showed the same. */
interface Stretch extends Seen {
  /** When the first of them was answered. */
  since: number;
  /** When the last of them began. */
  lastBeganAt: number;
}

/** Good polls that showed a status without an end are one stretch, whatever links they showed. */
const isSame = (one: Seen, other: Seen | null) =>
  other !== null && one.end === other.end && (one.end === null || one.prLink === other.prLink);

/** An end that counts. */
interface Counted {
  end: End;
  /** It has not stood: the upstream would go on changing for ever. */
  isBelieved: boolean;
}

/** All that may be known of the polls. */
export interface Knowledge {
  job: { status: string; prLink: string | null } | null;
  prLink: string | null;
  prLinks: readonly string[];
  /** Follow-ups that were accepted, or given up as unknown. */
  followUps: number;
  /** When the last of them was; a poll that begins in this very millisecond may be taken for an earlier one. */
  takenAt: number | null;
  /** The last good polls since then. */
  stretch: Stretch | null;
  /** Since a status without an end has stood: the first end polled, the last one, and how many were contradicted. */
  unrest: { since: number; last: End; changes: number } | null;
  counted: Counted | null;
  /** What the last good poll showed; a job that was just created is at work. */
  last: Seen | null;
  /** Of the last follow-up: what was polled before it, and first after it. Null if no poll can show work on it. */
  work: { before: Seen | null; first: Seen | null; sawWork: boolean } | null;
  /** Responses 404 in a row, of the upstream or of something on the way. */
  notFound: { count: number; since: number; isPage: boolean } | null;
  isGone: boolean;
}

const NOTHING: Knowledge = {
  job: null,
  prLink: null,
  prLinks: [],
  followUps: 0,
  takenAt: null,
  stretch: null,
  unrest: null,
  counted: null,
  last: null,
  work: null,
  notFound: null,
  isGone: false,
};

const LOST = { count: 5, ms: 60_000, pagesMs: 3_600_000 };
const MAX_LINKS = 20;
/** An upstream that contradicts its ends is believed the last one after ten times `settle`. */
const MAX_UNREST = { times: 10, minChanges: 2 };
/** Polls further apart than two shortest waits have left something out. */
const GAP_WAITS = 2;

/** What the job's options say of its polls. */
export interface PollTerms {
  settle: number;
  /** Further words of the upstream that end a job. */
  furtherEnds: Readonly<Record<string, End>>;
  polling: { min: number };
}

type Change = (known: Knowledge) => Knowledge[];

export class PollsModel {
  readonly #settle: number;
  /** A status without an end that was polled longer ago may have stood, unseen. */
  readonly #gap: number;
  /** Further words that end a job. */
  readonly #furtherEnds: Readonly<Record<string, End>>;
  #known: readonly Knowledge[] = [NOTHING];
  /** What was known before the present task, and what came since. */
  #before: readonly Knowledge[] = this.#known;
  #task: { of: 'poll' | 'write'; change: Change }[] = [];

  constructor({ settle, furtherEnds, polling }: PollTerms) {
    this.#settle = settle;
    this.#gap = Math.max(settle, GAP_WAITS * polling.min);
    this.#furtherEnds = furtherEnds;
  }

  get known(): readonly Knowledge[] {
    return this.#known;
  }

  /** The next task begins. */
  taskEnded(): void {
    this.#before = this.#known;
    this.#task = [];
  }

  /** Drops what can't be, for a reason that is named if nothing remains. */
  keep(isPossible: (known: Knowledge) => boolean, reason: () => string): void {
    const kept = this.#known.filter(isPossible);
    if (kept.length === 0) throw new BrokenPromise(reason());
    if (kept.length === this.#known.length) return;
    this.#known = kept;
    this.taskEnded();
  }

  /** The run has created the job, or adopted it: it is at work, as far as is known. */
  jobCreated(record: SentRecord | null): void {
    this.#happen('write', (known) => {
      const shown = record ? this.#show(known, record) : known;
      return [{ ...shown, last: record ? this.#seen(record) : { end: null, prLink: null } }];
    });
  }

  /** A follow-up was accepted, or given up as unknown: all that was polled before ends nothing. */
  followUpTaken(at: number, record: SentRecord | null): void {
    this.#happen('write', (known) => {
      const { followUps, last } = known;
      const isAtWork = last !== null && last.end === null;
      return [
        {
          ...(record ? this.#show(known, record) : known),
          followUps: followUps + 1,
          takenAt: at,
          ...{ stretch: null, unrest: null, counted: null, notFound: null, isGone: false },
          work: isAtWork ? null : { before: last, first: null, sawWork: false },
        },
      ];
    });
  }

  /** A person decided: what polls did not find before counts no more. */
  decided(): void {
    this.#happen('write', (known) => [{ ...known, notFound: null, isGone: false }]);
  }

  /** The run took in a poll; `followUps` is the number of those taken when it began. */
  polled(at: number, { beganAt, followUps }: { beganAt: number; followUps: number }, response: PollResponse): void {
    this.#happen('poll', (known) => {
      const isStale = known.followUps !== followUps;
      if (response.kind !== 'record') return [this.#without(known, isStale ? 'failed' : response.kind, at)];
      const found = { ...known, notFound: null, isGone: false };
      const shown = this.#show(found, response.record);
      // What began before the follow-up was taken may be shown in place of the record that came since.
      const unjudged = [found, shown];
      if (isStale) return unjudged;
      const judged = this.#judge(shown, this.#seen(response.record), { at, beganAt });
      return known.takenAt === beganAt ? [...unjudged, ...judged] : judged;
    });
  }

  /** A poll that showed no record. */
  #without(known: Knowledge, kind: 'notFound' | 'page404' | 'failed', at: number): Knowledge {
    if (kind === 'failed') return { ...known, notFound: null, isGone: false };
    const isPage = kind === 'page404';
    const before = known.notFound?.isPage === isPage ? known.notFound : { count: 0, since: at };
    const notFound = { count: before.count + 1, since: before.since, isPage };
    const isGone = notFound.count >= LOST.count && at - notFound.since >= (isPage ? LOST.pagesMs : LOST.ms);
    return { ...known, notFound, isGone };
  }

  #judge(known: Knowledge, seen: Seen, { at, beganAt }: { at: number; beganAt: number }): Knowledge[] {
    const { stretch: last, work } = known;
    const isMore = last !== null && isSame(seen, last);
    const stretch = { ...(isMore ? last : { ...seen, since: at }), lastBeganAt: beganAt };
    const unrest = this.#unrestAfter(known, stretch);
    const next = { ...known, stretch, unrest, last: seen, work: work && workAfter(work, seen) };
    const standing = this.#standing(known, stretch);
    if (standing) return [{ ...next, counted: standing }];
    const believed = this.#believed(unrest, at);
    const going = { ...next, counted: null };
    if (!believed) return [going];
    // While that time ends, what is shown may stand, and would soon count itself.
    return [{ ...next, counted: believed }, ...(isMore && known.counted === null ? [going] : [])];
  }

  /** The end that the last good poll showed, if it need not stand or has stood. */
  #standing({ followUps }: Knowledge, stretch: Stretch): Counted | null {
    const { end, prLink } = stretch;
    if (end === null) return null;
    const mayBeTooEarly = followUps > 0 || (end === 'completed' && prLink === null);
    return !mayBeTooEarly || this.#stands(stretch) ? { end, isBelieved: false } : null;
  }

  #stands({ since, lastBeganAt }: Stretch): boolean {
    return this.#settle === 0 || lastBeganAt >= since + this.#settle;
  }

  #unrestAfter({ stretch: last, unrest }: Knowledge, stretch: Stretch): Knowledge['unrest'] {
    const { end } = stretch;
    // A status without an end that has stood is a job that goes on.
    if (end === null && this.#stands(stretch)) return null;
    const isAfterGap = end !== null && last?.end === null && stretch.since - last.since > this.#gap;
    if (!unrest || isAfterGap) return end && { since: stretch.since, last: end, changes: 0 };
    const changes = unrest.changes + (last!.end !== null && !isSame(stretch, last) ? 1 : 0);
    return { since: unrest.since, last: end ?? unrest.last, changes };
  }

  /** The last end of an upstream that has contradicted its ends for long enough. */
  #believed(unrest: Knowledge['unrest'], at: number): Counted | null {
    if (!unrest || unrest.changes < MAX_UNREST.minChanges) return null;
    return at - unrest.since >= MAX_UNREST.times * this.#settle ? { end: unrest.last, isBelieved: true } : null;
  }

  /** The end in the last good poll that must stand before it counts, and when a poll is due that can show it. */
  standsAt({ stretch, counted }: Knowledge): { since: number; at: number } | null {
    if (!stretch || stretch.end === null || counted?.isBelieved === false) return null;
    return { since: stretch.since, at: stretch.since + this.#settle };
  }

  /** The end in the last good poll. */
  lastEnd({ stretch, counted }: Knowledge): End | null {
    return counted?.end ?? stretch?.end ?? null;
  }

  /** Drops what a state or a result contradicts. */
  shown(shown: ShownPolls): void {
    const told = ({ job, prLink, prLinks, sawWork }: ShownPolls) =>
      JSON.stringify([job && [job.status, job.prLink], prLink, prLinks, sawWork]);
    const isPossible = (known: Knowledge) =>
      told(shownOf(known)) === told(shown) && this.#fitsWaiting(known, shown.waiting);
    const expected = () => this.#known.map((known) => `${told(shownOf(known))}${this.#waitsText(known)}`).join(' or ');
    const waits = shown.waiting ? `, waiting for ${shown.waiting.for} since ${shown.waiting.since}` : '';
    this.keep(isPossible, () => `it shows ${told(shown)}${waits} instead of ${expected()}`);
  }

  /** While good polls are waited for, `waiting` says whether an end must stand, and names an unknown status. */
  #fitsWaiting(known: Knowledge, waiting: ShownPolls['waiting']): boolean {
    const stands = this.standsAt(known);
    if (waiting?.for === 'poll') {
      const { job, notFound } = known;
      const isOdd = job !== null && this.#isUnknown(job.status);
      const namesIt = waiting.reason?.includes(`"${job?.status}"`) === true;
      return stands === null && (notFound !== null || (isOdd ? namesIt : waiting.reason === undefined));
    }
    if (waiting?.for !== 'settle') return true;
    const until = waiting.until === undefined || Date.parse(waiting.until) === stands?.at;
    return stands !== null && Date.parse(waiting.since) === stands.since && until;
  }

  #waitsText(known: Knowledge): string {
    const stands = this.standsAt(known);
    return stands ? `, an end that must stand since ${new Date(stands.since).toISOString()}` : '';
  }

  #happen(of: 'poll' | 'write', change: Change): void {
    this.#task.push({ of, change });
    const polls = this.#task.filter((one) => one.of === 'poll').map((one) => one.change);
    const writes = this.#task.filter((one) => one.of === 'write').map((one) => one.change);
    const known = interleaved(polls, writes).flatMap((changes) =>
      changes.reduce((before, next) => before.flatMap(next), [...this.#before]),
    );
    this.#known = known.length === 1 ? known : [...new Map(known.map((one) => [JSON.stringify(one), one])).values()];
  }

  #show(known: Knowledge, { status, prLink: sent }: SentRecord): Knowledge {
    const links = linksIn(sent);
    const all = [...new Set([...known.prLinks, ...links])];
    // Those that are shown now stay.
    const older = all.filter((link) => !links.includes(link)).slice(0, Math.max(0, all.length - MAX_LINKS));
    const prLinks = all.filter((link) => !older.includes(link));
    const last = links.at(-1) ?? null;
    return { ...known, job: { status, prLink: last }, prLink: last ?? known.prLink, prLinks };
  }

  #seen({ status, prLink }: SentRecord): Seen {
    return { end: this.#endOf(status), prLink: linksIn(prLink).at(-1) ?? null };
  }

  #endOf(status: string): End | null {
    const word = wordOf(status);
    return ENDS.find((one) => one === word) ?? this.#furtherEnds[word] ?? null;
  }

  #isUnknown(status: string): boolean {
    return this.#endOf(status) === null && wordOf(status) !== 'active';
  }
}

const ENDS: readonly End[] = ['completed', 'archived', 'failed'];

const wordOf = (status: string) => status.trim().toLowerCase();

/** A text that is not blank, or the addresses in a list or an object. */
function linksIn(sent: unknown): string[] {
  if (typeof sent === 'string') return sent.trim() === '' ? [] : [sent];
  const inner = typeof sent === 'object' && sent !== null ? Object.values(sent as object) : [];
  return inner.filter((one): one is string => typeof one === 'string' && one.startsWith('https://'));
}

function workAfter({ before, first, sawWork }: NonNullable<Knowledge['work']>, seen: Seen): Knowledge['work'] {
  const isOther = (one: Seen | null) => one !== null && !isSame(seen, one);
  return { before, first: first ?? seen, sawWork: sawWork || seen.end === null || isOther(before) || isOther(first) };
}

function shownOf({ job, prLink, prLinks, work }: Knowledge): ShownPolls {
  return { job, prLink, prLinks: [...prLinks], sawWork: work && work.sawWork };
}

/** All orders of two lists, each in its own order. */
function interleaved<T>(one: readonly T[], other: readonly T[]): T[][] {
  if (one.length === 0 || other.length === 0) return [[...one, ...other]];
  return [
    ...interleaved(one.slice(1), other).map((rest) => [one[0]!, ...rest]),
    ...interleaved(one, other.slice(1)).map((rest) => [other[0]!, ...rest]),
  ];
}
