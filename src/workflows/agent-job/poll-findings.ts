/**
 * What the polls of a job have shown. Decides whether the job has ended, is lost or polled in vain, and whether a poll
 * before its time is wanted. Pure: no Temporal. Times in milliseconds.
 */
import { LIMIT, type JobRecord, type TerminalStatus } from '../../contract.js';
import { jsonBytes } from '../../contract/shared.js';
import type { ShownJob } from '../../contract/write-outcome.js';
import type { PollJobInput, PollJobResult, Reading } from '../../activities/agent-job/poll-attempt.js';
import {
  candidateAfter,
  isEndless,
  seenEnd,
  standingOf,
  unrestAfter,
  workSigns,
  workSignsAfter,
  type EndCandidate,
  type SeenEnd,
  type Standing,
  type Unrest,
  type WorkSigns,
} from '../../agent-job/ends.js';
import {
  isLost,
  isSameRecord,
  isTrouble,
  plannedPolls,
  TROUBLE_REPORTED_EVERY_MS,
  type NotFound,
  type PollPlan,
} from '../../agent-job/poll-waits.js';
import { MAX_FAILING_WAIT_MS, pollPauseMs } from '../../agent-job/waits.js';
import type { Interruption } from './write.js';

/** `pollNow` polls at most once in this time. */
const MIN_BETWEEN_POLLS_MS = 1_000;

/** What continue-as-new hands on. */
export interface PollData {
  job: JobRecord | null;
  /** The links in it, if they are more than its `prLink`. */
  links?: readonly string[] | undefined;
  lastChangeAt: number;
  /** Polls so far; those of a batch that was cut short are estimated. */
  polls: number;
  /** The last link that was seen; null if none was. */
  prLink: string | null;
  /** All that were seen, in the order seen; the last ones. */
  prLinks: readonly string[];
  /** The record's status is a word that the interface does not name. */
  isUnknownStatus: boolean;
  /** The end that the last good poll showed; null if it showed none, or none was made since the last follow-up. */
  candidate: EndCandidate | null;
  unrest: Unrest | null;
  /** The end that counts though it has not stood, as the upstream would go on changing for ever; null if none does. */
  believed: TerminalStatus | null;
  /** Follow-ups that were accepted, or given up as unknown. */
  followUpsTaken: number;
  /** What the last good poll showed; null before the first. */
  lastSeen: SeenEnd | null;
  /** Null without a follow-up, and if no poll can show whose work it is. */
  work: WorkSigns | null;
  /** Answers 404 in a row; null if the last one was another. */
  notFound: NotFound | null;
  /** The upstream has answered 404 for long enough. */
  isGone: boolean;
  /** Failed polls in a row. */
  failures: number;
  /** No poll before this time: the upstream said so. */
  notBefore: number;
  /** Before this time no batch reports that polls begin to fail. */
  troubleReportsFrom: number;
  /** The longest pause that the upstream asked for until that time: no batch reports it again. */
  pauseMs: number;
  /** What polls fail for, and since when; null while they succeed. */
  interruption: Interruption | null;
  /** A caller said `pollNow`, and no poll has answered it yet. */
  pollRequested: boolean;
}

/** Before the first poll. */
export function firstPollData(startedAt: number): PollData {
  return {
    job: null,
    lastChangeAt: startedAt,
    polls: 0,
    prLink: null,
    prLinks: [],
    isUnknownStatus: false,
    candidate: null,
    unrest: null,
    believed: null,
    followUpsTaken: 0,
    lastSeen: null,
    work: null,
    notFound: null,
    isGone: false,
    failures: 0,
    notBefore: 0,
    troubleReportsFrom: 0,
    pauseMs: 0,
    interruption: null,
    pollRequested: false,
  };
}

/** What one run knows of its polls. */
export class PollFindings {
  readonly #data: PollData;
  readonly #plan: PollPlan;
  readonly #settleMs: number;
  readonly #now: () => number;

  /** When a poll before its time is wanted; null if none is. */
  requestedAt: number | null = null;
  /** Whether a caller wants it by `pollNow`: the next batch answers it. */
  isPollNow = false;
  batchStartedAt = 0;
  /** When the next batch is to begin; null while one runs. */
  nextPollAt: number | null = null;
  /** A batch has brought something that `observe` has not taken in yet: it must not be lost to continue-as-new. */
  hasResult = false;
  /** The batch that runs. */
  #batch: {
    since: number;
    began: { sinceChangeMs: number; standing: Standing | undefined };
    maxReads: number;
  } | null = null;

  constructor(data: PollData, { polling, settleMs }: { polling: PollPlan; settleMs: number }, now: () => number) {
    this.#data = { ...data };
    this.#plan = polling;
    this.#settleMs = settleMs;
    this.#now = now;
    if (data.pollRequested) this.pollNow();
  }

  /** What is known, to be read only. */
  get known(): Readonly<PollData> {
    return this.#data;
  }

  /** `pollNow`: at once, but at most once a second, and never against a `Retry-After`. */
  pollNow(): void {
    const isLongPause = this.#pauseAfterCutMs >= Math.max(this.#plan.maxMs, MAX_FAILING_WAIT_MS);
    // The batch that runs polls sooner than another one might.
    if (this.#batch && this.#batch.maxReads > 1 && isLongPause) return;
    this.requestedAt ??= Math.max(this.#now(), this.batchStartedAt + MIN_BETWEEN_POLLS_MS);
    this.isPollNow = true;
    this.#data.pollRequested = true;
  }

  /** The batch that runs no longer knows what it needs to know: another one begins. */
  pollAgain(): void {
    this.requestedAt = this.#now();
  }

  /** A poll has shown an end that counts: with nothing left to send, the run is over. */
  get hasEnded(): boolean {
    return this.#data.candidate?.hasStood === true || this.#data.believed !== null;
  }

  /** The end in the last good poll, or the one that is believed; null if there is none. */
  get lastEnd(): TerminalStatus | null {
    return this.#data.candidate?.end ?? this.#data.believed;
  }

  /** The standing of the candidate; undefined if none must stand. */
  get standing(): Standing | undefined {
    return standingOf({ candidate: this.#data.candidate, settleMs: this.#settleMs }, this.#now());
  }

  /** What a batch must know of the polls before it. */
  get forBatch(): Omit<PollJobInput, 'projectId' | 'jobId' | 'plan' | 'deadlineAt' | 'maxReads'> {
    const { job, links: knownLinks, lastChangeAt, work, candidate, followUpsTaken, unrest } = this.#data;
    const { failures, interruption, pauseMs, notFound } = this.#data;
    const troubleReportsFrom = this.#troubleReportsFrom;
    // The first poll after a follow-up is reported, whatever it shows: the next ones are compared with it.
    const known = work !== null && work.first === null ? null : job;
    const health = { failures, isFailing: interruption !== null, troubleReportsFrom, pauseMs, notFound };
    const rules = { candidate, settleMs: this.#settleMs, followUpsTaken, brokenAt: unrest?.brokenAt ?? null };
    return { known, knownLinks, lastChangeAt, ...rules, ...health };
  }

  beginBatch({ maxReads, lastChangeAt }: PollJobInput): void {
    const now = this.#now();
    this.requestedAt = null;
    this.isPollNow = false;
    this.batchStartedAt = now;
    this.nextPollAt = null;
    const began = { sinceChangeMs: now - lastChangeAt, standing: this.standing };
    this.#batch = { since: now, began, maxReads };
  }

  /** The batch that runs is cut short: its polls are estimated from the plan. */
  cancelBatch(): void {
    if (!this.#batch) return;
    const data = this.#data;
    const now = this.#now();
    const { since, began, maxReads } = this.#batch;
    data.polls += plannedPolls(this.#plan, began, now - since, maxReads);
    data.notBefore = Math.max(data.notBefore, now + this.#pauseAfterCutMs);
    this.#batch = null;
  }

  /** The upstream may just have asked again for such a pause: only the batch that runs knows. */
  get #pauseAfterCutMs(): number {
    const { interruption, pauseMs } = this.#data;
    return interruption || this.#now() < this.#troubleReportsFrom + pauseMs ? pauseMs : 0;
  }

  /** Never further ahead than it can have been set: the server's clock may have been set back. */
  get #troubleReportsFrom(): number {
    return Math.min(this.#data.troubleReportsFrom, this.#now() + TROUBLE_REPORTED_EVERY_MS);
  }

  /** Takes in what a batch brought; what its polls showed before a follow-up was accepted ends nothing. */
  observe({ reading, reads, failures }: PollJobResult, asked: PollJobInput): void {
    const data = this.#data;
    const now = this.#now();
    const isStale = asked.followUpsTaken !== data.followUpsTaken;
    data.polls += reads;
    data.failures = failures;
    this.#batch = null;
    this.hasResult = false;
    data.pollRequested = this.isPollNow;
    this.#noteHealth(reading);
    if (reading.kind === 'record') this.#show(reading.job, reading);
    if (reading.kind === 'record' && !isStale) this.#judge(reading);
    data.notFound = reading.kind === 'notFound' && !isStale ? notFoundAfter(data.notFound, reading, now) : null;
    // Whatever else comes in between, a job is found again: the run may not have ended yet.
    data.isGone = data.notFound?.isLost === true;
  }

  #noteHealth(reading: Reading): void {
    const data = this.#data;
    const now = this.#now();
    const { interruption: before } = data;
    const pauseMs = pollPauseMs(reading);
    data.notBefore = now + pauseMs;
    data.pauseMs = Math.max(pauseMs, now < this.#troubleReportsFrom ? data.pauseMs : 0);
    data.interruption = isTrouble(reading, data.failures) ? pollInterruption(reading, before, now) : null;
    if (!before && data.interruption) data.troubleReportsFrom = now + TROUBLE_REPORTED_EVERY_MS;
  }

  /** Shows a record, of whatever answer. */
  #show(job: JobRecord, { isUnknownStatus, prLinks: links }: ShownParts): void {
    const data = this.#data;
    const prLinks = links ?? (job.prLink === null ? [] : [job.prLink]);
    data.links = links;
    if (!isSameRecord(job, data.job)) {
      data.job = job;
      data.lastChangeAt = this.#now();
    }
    data.isUnknownStatus = isUnknownStatus === true;
    data.prLink = prLinks.at(-1) ?? data.prLink;
    data.prLinks = withLinks(data.prLinks, prLinks);
  }

  /** What a poll shows decides about the end; the answer to a write is no poll. */
  #judge(reading: Reading & { kind: 'record' }): void {
    const data = this.#data;
    const now = this.#now();
    const seen = seenEnd(reading);
    const { counts } = reading;
    const candidate = candidateAfter(data.candidate, seen, { counts, now });
    // What came between may have stood for that time, unseen: this end is as new as a first one. Rare polls are no gap.
    const gapMs = Math.max(this.#settleMs, 2 * this.#plan.minMs);
    const isAfterGap = candidate !== null && now - (data.unrest?.brokenAt ?? now) > gapMs;
    const unrest = unrestAfter(isAfterGap ? null : data.unrest, seen, candidate, { counts, now });
    const isBelieved = !candidate?.hasStood && unrest !== null && isEndless(unrest, this.#settleMs, now);
    data.candidate = candidate;
    data.unrest = unrest;
    data.believed = isBelieved ? unrest.last.end : null;
    data.work = data.work && workSignsAfter(data.work, seen);
    data.lastSeen = seen;
  }

  /** The job id is known from now on. `job` is what the create's response showed; null if a person named the job. */
  jobKnown(job: JobRecord | null, shown: ShownParts): void {
    this.#data.lastChangeAt = this.#now();
    if (job) this.#show(job, shown);
    // A poll that shows the same is not reported. A job that was just created is at work.
    this.#data.lastSeen = { end: shown.end ?? null, prLink: job?.prLink ?? null };
  }

  /** A follow-up was accepted, or given up: an end that was seen before counts for nothing. */
  followUpTaken(job: JobRecord | null, shown: ShownParts): void {
    const data = this.#data;
    if (job) this.#show(job, shown);
    data.lastChangeAt = this.#now();
    data.followUpsTaken += 1;
    data.candidate = null;
    data.unrest = null;
    data.believed = null;
    data.work = workSigns(data.lastSeen);
    this.forgetNotFound();
    this.pollAgain();
  }

  /** Answers 404 so far end nothing. */
  forgetNotFound(): void {
    this.#data.notFound = null;
    this.#data.isGone = false;
  }

  carry(): PollData {
    return { ...this.#data };
  }
}

type ShownParts = Partial<ShownJob>;

/** All links seen: the last ones, so that what continue-as-new hands on stays small. */
function withLinks(before: readonly string[], seen: readonly string[]): readonly string[] {
  const links = [...new Set([...before, ...seen])];
  while (links.length > LIMIT.prLinks || jsonBytes(links) > LIMIT.recordBytes) {
    // What is shown now stays.
    const oldest = links.findIndex((link) => !seen.includes(link));
    links.splice(Math.max(oldest, 0), 1);
  }
  return links;
}

/** The answers 404 in a row; a page and an answer are not of one row. */
function notFoundAfter(
  before: NotFound | null,
  { count, page }: Reading & { kind: 'notFound' },
  now: number,
): NotFound {
  const isSameRow = before !== null && (before.page === undefined) === (page === undefined);
  const row: NotFound = { count, since: isSameRow ? before.since : now, ...(page !== undefined && { page }) };
  return isLost(row, now) ? { ...row, isLost: true } : row;
}

/** What keeps polls from being of use, as the last one showed; null if it brought something. */
export function pollInterruption(reading: Reading, before: Interruption | null, now: number): Interruption | null {
  const shown = interruptionIn(reading);
  return shown && { ...shown, since: before?.for === shown.for ? before.since : now };
}

function interruptionIn(reading: Reading): Omit<Interruption, 'since'> | null {
  if (reading.kind === 'failed') return { for: reading.waitsFor ?? 'upstream', reason: reading.reason };
  return reading.kind === 'notFound' && reading.page !== undefined ? { for: 'upstream', reason: reading.page } : null;
}
