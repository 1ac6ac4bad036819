/**
 * The promises of docs/contract.md about `agentJob` as a model. It gets all events outside the workflow and checks, at
 * each step and at the end, what must and what may happen. It does not depend on the implementation. polls-model.ts has
 * what polls have shown. Times in milliseconds.
 */
import {
  BrokenPromise,
  PollsModel,
  type Knowledge,
  type PollResponse,
  type PollTerms,
  type SentRecord,
  type ShownPolls,
} from './polls-model.js';

interface Terms extends PollTerms {
  isAttached: boolean;
  usedFollowUpIds: string[];
  deadline: number;
  startWithin: number | null;
  onUnknownOutcome: 'ask' | 'fail' | 'retry';
  decideWithin: number | null;
  /** Temporal restarted the run: every write needs a person's confirmation. */
  isRepeated: boolean;
}

export type SendOutcome =
  'accepted' | 'rejected' | 'throttled' | 'held' | 'notDelivered' | 'unauthorized' | 'blocked' | 'inDoubt';
export type FollowUpState = 'queued' | 'sent' | 'rejected' | 'unknown' | 'abandoned';

/** A place in a queue of requests, which gives the turn to send. */
interface Place {
  position?: number;
  expectedAt?: string;
}

/** How a run ended: a result's outcome, `canceled`, or a failure's type. */
export type Verdict = string;

/** The write that is sent or waits to be sent. */
interface Write {
  /** Null: the create. */
  id: string | null;
  /** Sends in doubt under policy `retry`, and the time of the first. */
  unknownSends: number;
  inDoubtSince: number | null;
  /** The last attempt was throttled, blocked, not delivered, or its key was refused. */
  isHeldUp: boolean;
  /** A person decided to send a write in doubt again. */
  isConfirmed: boolean;
  /** Throttled, blocked, or its key was refused: other writes, or the key, may delay it beyond `notBefore`. */
  waitsForTurn: boolean;
  /** A person decided `retry`, and no attempt was made since. */
  isRetryDue: boolean;
  /** Throttled attempts. */
  throttled: number;
  notBefore: number;
  /** The last send was throttled, so that a turn is of use. */
  isQueued: boolean;
  /** Until when the turn is good with which it is sent next; null if it has none. */
  turn: number | null;
  /** If it waits in a queue: it is sent, or tried, by then. */
  tryBy: number;
  /** One that came while it was being sent. */
  nextTurn: number | null;
}

interface Read {
  beganAt: number;
  /** Follow-ups that were taken before it began. */
  followUps: number;
  /** Null while it is under way. */
  response: PollResponse | null;
}

/** How the run may end; `hasReason`: its result says why. */
interface Ending {
  verdict: Verdict;
  hasReason: boolean;
}

/** Three polls of 20 s may hang at the deadline: one that began before it, the last one, and `pollNow`’s. */
const LAST_READ_MS = 60_000;
/** One second with its jitter of 10 %. */
const MIN_WAIT_MS = 900;
const HOUR = 3_600_000;
/** That polls fail again after a good one is reported at most once in this time. */
const REPORTED_EVERY = HOUR / 6;
/** A write without a turn asks its queue again after this time, or up to a third earlier. */
const ASK_AGAIN = { soonest: HOUR / 3, often: 100, rarest: 6 * HOUR };
/** The number of a read before an adoption, which does not belong to the poll loop. */
const ADOPT_READ = 0;
/** What a follow-up is to the run: `conflict` if its id was taken with another prompt. */
export type Asked = 'new' | 'known' | 'conflict';

export class ContractModel {
  readonly #terms: Terms;
  readonly #startedAt: number;
  /** The time of the last event. */
  #at: number;
  /** Since when no write prevents the end of the run. */
  #freeSince = 0;
  readonly #states = new Map<string, FollowUpState>();
  /** The state before the last change, and when that was. */
  readonly #before = new Map<string, { state: FollowUpState | undefined; at: number }>();
  readonly #prompts = new Map<string, string>();
  #write: Write | null = null;
  #queue: string[] = [];
  #isSending = false;
  #sendBeganAt = 0;
  /** A write's key was refused, or it was blocked on the way: it may hold those that follow. */
  #wasRefused = false;
  /** The write waits for its turn since then: the deadline stands still. */
  #waitsSince: number | null = null;
  /** The deadline as the polls knew it that began before a write waited. */
  #olderDeadline = -Infinity;
  #isJobKnown: boolean;
  #unknownSince: number | null = null;
  #cancelledAt: number | null = null;
  #stop: Verdict | null = null;
  #deadline: number;
  readonly #polls: PollsModel;
  /** Polls whose results have not reached the run. */
  readonly #reads = new Map<number, Read>();
  #readCount = 0;
  #noReadBefore = 0;
  /** The longest `Retry-After` of late, and when the last one came: the upstream may just have asked for it again. */
  #pause = { ms: 0, at: 0 };
  /** The last poll that the run took in showed a record. */
  #isAnswered = true;
  #lastReadAt = -Infinity;
  #readEndedAt = -Infinity;
  /** When something last called for another poll: the batch of polls was given up. */
  #cutAt = -Infinity;
  /** A poll may follow the last one within a second, and has not yet: something called for it at this time. */
  #readCalledForAt: number | null = null;
  /** How many things called for one at that time: each may bring a poll of its own. */
  #readCalls = 0;
  #lastAnswers: { id: string; state: FollowUpState }[] = [];
  #isReadCountSure = true;
  /** What people decided, and the run accepted. */
  readonly decisions: string[] = [];
  /** A follow-up was turned away since the run is about to end. */
  #isEndingSince: number | null = null;
  /** An adoption is under way; it reads the job first. */
  #isAdopting = false;
  /** What the upstream showed in its response to the write. */
  #sentRecord: SentRecord | null = null;

  constructor(terms: Terms, startedAt: number) {
    this.#terms = terms;
    this.#at = startedAt;
    this.#startedAt = startedAt;
    this.#isJobKnown = terms.isAttached;
    this.#deadline = startedAt + terms.deadline;
    this.#polls = new PollsModel(terms);
    if (!terms.isAttached) this.#write = newWrite(null);
  }

  /** A follow-up reached the run, by signal or update. */
  asked(at: number, id: string, prompt: string): Asked {
    this.#advanceTo(at);
    if (this.#terms.usedFollowUpIds.includes(id)) return 'known';
    if (this.#states.has(id)) return this.#prompts.get(id) === prompt ? 'known' : 'conflict';
    this.#setState(id, 'queued');
    this.#prompts.set(id, prompt);
    this.#queue.push(id);
    this.#isReadCountSure = false;
    this.#nextWrite();
    return 'new';
  }

  /** A new follow-up was turned away, since the run is about to end: it must, at this very moment. */
  refusedAtEnd(at: number, id: string): void {
    if (this.#write?.id === id) this.#write = null;
    else this.#queue = this.#queue.filter((queued) => queued !== id);
    this.#states.delete(id);
    this.#nextWrite();
    this.#isEndingSince = at;
  }

  pollNow(at: number): void {
    this.#advanceTo(at);
    this.#cutBatch(at);
    const write = this.#write;
    if (!write || this.#isSending || write.tryBy === Infinity) return;
    // It asks its queue again, at most once a second.
    const askAt = Math.max(at, this.#freeSince + 1_000);
    write.notBefore = Math.min(write.notBefore, askAt);
    write.tryBy = Math.min(write.tryBy, askAt);
  }

  cancelRequested(at: number): void {
    this.#advanceTo(at);
    this.#cancelledAt ??= at;
    this.#isReadCountSure = false;
  }

  /** The run continued as new: waiting updates may have been answered, a poll was cancelled. */
  continuedAsNew(at: number): void {
    this.#advanceTo(at);
    this.#cutBatch(at);
    this.#reads.clear();
    // What happened in the task that ended the run is first shown by the next one: in whatever order it happened.
  }

  sendBegan(at: number, kind: 'create' | 'message', prompt: string): void {
    this.#decideInTime(at, true);
    this.#advanceTo(at);
    const write = this.#write;
    if (!write) return broken(`a ${kind} is sent though nothing waits`);
    if ((write.id === null) !== (kind === 'create')) broken(`a ${kind} is sent out of turn`);
    if (write.id !== null && this.#prompts.get(write.id) !== prompt)
      broken(`"${prompt}" is sent instead of ${write.id}`);
    if (this.#isSending) broken('two writes are under way');
    if (this.#terms.isRepeated && !write.isConfirmed) broken('a repeated run sends without asking');
    if (this.#unknownSince !== null) broken('a write is sent while another is unknown');
    if (this.#stop !== null) broken(`a write is sent after ${this.#stop}`);
    if (at > (this.#cancelledAt ?? Infinity)) broken('a write is sent after the cancellation');
    if (at < write.notBefore) broken(`a write is sent ${write.notBefore - at} ms too soon`);
    this.#isSending = true;
    this.#sendBeganAt = at;
    this.#sentRecord = null;
  }

  /** The upstream accepted the write, and its response has this record. */
  sendAnswered(_: number, record: SentRecord): void {
    this.#sentRecord = record;
  }

  /** The result of the write activity. */
  sendEnded(
    at: number,
    outcome: SendOutcome,
    { retryAfterMs, queued }: { retryAfterMs?: number | undefined; queued?: Place | null | undefined } = {},
  ): void {
    const write = this.#write;
    if (!write) return broken('an answer to nothing');
    // Other writes of the project may be throttled, its key may have been refused, and a repeated run asks first.
    const waitsForTurn = outcome === 'throttled' || outcome === 'held';
    const isRefused = outcome === 'unauthorized' || outcome === 'blocked';
    const mayBeUnsent = outcome === 'held' || (isRefused && this.#wasRefused) || this.#asks;
    if (!this.#isSending && !mayBeUnsent) broken(`${outcome}, though nothing was sent`);
    if (!this.#isSending && outcome === 'inDoubt' && write.isConfirmed)
      broken('a person who said "retry" is asked again');
    this.#advanceTo(at);
    this.#wasRefused ||= isRefused;
    if (waitsForTurn) this.#waitForTurn(this.#isSending ? this.#sendBeganAt : at);
    else this.#goOn(at);
    this.#isSending = false;
    write.isRetryDue = false;
    write.waitsForTurn = waitsForTurn || isRefused;
    this.#freeSince = at;
    write.isHeldUp = waitsForTurn || outcome === 'notDelivered' || isRefused;
    const kept = this.#endTurn(at, write, outcome);
    switch (outcome) {
      case 'accepted':
        return write.id === null ? this.#jobKnown(at, this.#sentRecord) : this.#settle(at, 'sent', this.#sentRecord);
      case 'rejected':
        if (write.id === null) this.#stop = this.#mayHaveArrived(write) ? 'UnknownOutcome' : 'CreateRejected';
        else this.#settle(at, this.#mayHaveArrived(write) ? 'unknown' : 'rejected');
        return;
      case 'throttled':
      case 'held':
        if (queued) this.#waitInQueue(at, write, queued);
        else this.#waitWithoutQueue(at, write, retryAfterMs);
        // The wait is over as soon as it begins.
        if (kept !== null) this.#useTurn(at, write, kept);
        return;
      case 'notDelivered':
        write.notBefore = at + 1_000;
        return;
      case 'unauthorized':
      case 'blocked':
        write.notBefore = at;
        return;
      case 'inDoubt':
        return this.#unknown(at, write);
    }
  }

  /** A queue gives a turn that is good until a time; `isSending`: an activity of a write is under way. */
  turnGiven(at: number, until: number, isSending: boolean): void {
    this.#advanceTo(at);
    const write = this.#write;
    if (!write || this.#unknownSince !== null) return;
    if (isSending) write.nextTurn = until;
    else if (write.isQueued) this.#useTurn(at, write, until);
  }

  #useTurn(at: number, write: Write, until: number): void {
    Object.assign(write, { turn: until, notBefore: at, tryBy: at });
  }

  /** The turn that is left for the next send, if one came meanwhile and is still good. */
  #endTurn(at: number, write: Write, outcome: SendOutcome): number | null {
    const { nextTurn } = write;
    write.isQueued = outcome === 'throttled' || outcome === 'held';
    Object.assign(write, { turn: null, nextTurn: null, tryBy: Infinity });
    return write.isQueued && nextTurn !== null && nextTurn > at ? nextTurn : null;
  }

  #waitInQueue(at: number, write: Write, { position = 1 }: Place): void {
    const wait = Math.min(ASK_AGAIN.soonest * Math.max(1, position / ASK_AGAIN.often), ASK_AGAIN.rarest);
    write.notBefore = at + Math.floor((wait * 2) / 3);
    write.tryBy = at + wait;
  }

  #waitWithoutQueue(at: number, write: Write, retryAfterMs: number | undefined): void {
    write.throttled += 1;
    const wait =
      retryAfterMs === undefined ? 5_000 * 2 ** (write.throttled - 1) : Math.max(1_000, Math.min(retryAfterMs, HOUR));
    write.notBefore = at + Math.min(wait, retryAfterMs === undefined ? 300_000 : Infinity);
  }

  /** The deadline stands still from now on, unless it had passed. */
  #waitForTurn(since: number): void {
    if (this.#waitsSince !== null || this.#deadline <= since) return;
    this.#waitsSince = since;
    this.#olderDeadline = this.#deadline;
  }

  #goOn(at: number): void {
    if (this.#waitsSince === null) return;
    this.#deadline += at - this.#waitsSince;
    this.#waitsSince = null;
    this.#cutBatch(at);
  }

  /** A person decided `adopt`: the job may be read, then `resolved` or `adoptRefused` follows. */
  adoptAsked(at: number): void {
    this.#advanceTo(at);
    this.#isAdopting = true;
  }

  adoptRefused(): void {
    this.#isAdopting = false;
  }

  /** A person's decision that the run accepted. */
  resolved(at: number, action: 'adopt' | 'delivered' | 'retry' | 'abandon'): void {
    // A run that would continue as new waits for the adoption first, and meanwhile has no timer for the decision.
    if (!this.#isAdopting) this.#decideInTime(at, false);
    this.#advanceTo(at);
    const write = this.#write;
    if (this.#unknownSince === null || !write) return broken(`${action} was accepted though nothing is unknown`);
    if (action === 'adopt' && write.id !== null) broken('a follow-up was adopted');
    if (action === 'delivered' && write.id === null) broken('a create was called delivered');
    this.#isAdopting = false;
    this.decisions.push(action);
    this.#clockGoesOn(at);
    this.#polls.decided();
    this.#cutBatch(at);
    if (action === 'adopt') this.#jobKnown(at, null);
    else if (action === 'delivered') this.#settle(at, 'sent');
    else if (action === 'retry') {
      this.#write = { ...newWrite(write.id), isConfirmed: true, isRetryDue: true };
      if (write.id !== null) this.#setState(write.id, 'queued');
    } else if (write.id === null) this.#stop = 'abandoned';
    else this.#settle(at, 'unknown');
  }

  readBegan(at: number): number {
    if (this.#isAdopting && !this.#isJobKnown) return ADOPT_READ;
    // One that comes at this very moment may have been due before a follow-up is given up.
    this.#decideInTime(at, false);
    this.#advanceTo(at);
    if (!this.#isJobKnown) broken('a job is read before its id is known');
    if (at < this.#noReadBefore) broken(`a read comes ${this.#noReadBefore - at} ms before Retry-After allows it`);
    // The last poll at the deadline and the one at the end of `settle` come exactly when due, or once that before has
    // ended.
    const isSettled = this.#isEndOfSettle(at);
    const isDue = isSettled || this.#deadline <= at || this.#olderDeadline === at;
    const isSoon = at < this.#lastReadAt + MIN_WAIT_MS;
    if (isSoon && this.#readCalledForAt === null && !isDue) broken('two reads within a second');
    // One that was due at the very moment of the call may have come before it.
    if (at > (this.#readCalledForAt ?? -Infinity)) this.#readCalledForAt = null;
    else if (isSoon && !isSettled && --this.#readCalls === 0) this.#readCalledForAt = null;
    this.#lastReadAt = at;
    this.#readCount += 1;
    this.#reads.set(this.#readCount, { beganAt: at, followUps: this.#polls.known[0]!.followUps, response: null });
    return this.#readCount;
  }

  #isEndOfSettle(at: number): boolean {
    const ends = this.#polls.known.map((known) => this.#polls.standsAt(known)?.at ?? Infinity);
    return ends.some((end) => this.#lastReadAt < end && end <= at);
  }

  /** The upstream responded to a poll. */
  readEnded(at: number, number: number, response: PollResponse): void {
    const read = this.#reads.get(number);
    if (!read) return;
    this.#readEndedAt = at;
    this.#decideInTime(at, false);
    this.#advanceTo(at);
    read.response = response;
  }

  /** The run has the result of a poll, or need not have it, since its batch goes on (`isReported` is false). */
  pollTaken(at: number, number: number, isReported: boolean): void {
    const read = this.#reads.get(number);
    if (!read?.response) return broken('a poll that was not answered has a result');
    const { response } = read;
    this.#reads.delete(number);
    this.#isAnswered = response.kind === 'record';
    if (response.kind === 'record') {
      if (at > this.#pause.at + this.#pause.ms + REPORTED_EVERY) this.#pause.ms = 0;
    } else if (response.retryAfterMs! > 1_000) {
      const ms = Math.min(response.retryAfterMs!, HOUR);
      this.#noReadBefore = at + ms;
      this.#pause = { ms: Math.max(ms, this.#pause.ms), at };
    }
    this.#polls.polled(at, read, response);
    if (!isReported) this.#polls.taskEnded();
  }

  /** The batch of a poll was given up: its result is lost. */
  pollLost(at: number, number: number): void {
    if (!this.#reads.has(number)) return;
    // A write that is given up at this very moment may be the cause.
    if (this.#cutAt !== at && this.#write?.id) this.gaveUp(at, this.#write.id);
    if (this.#cutAt !== at) broken('the result of a poll was given up without a cause');
    this.#reads.delete(number);
  }

  /** What a query shows after a task of the workflow. */
  shown(shown: ShownPolls): void {
    this.#polls.shown(shown);
  }

  taskEnded(): void {
    this.#polls.taskEnded();
  }

  /** An update was answered. */
  answered(at: number, id: string, answer: FollowUpState, asked: Asked = 'known'): void {
    // What was abandoned has freed its id.
    if (asked === 'conflict' && answer !== 'abandoned') broken(`${id} has another prompt, and was answered ${answer}`);
    if (this.#terms.usedFollowUpIds.includes(id)) {
      if (answer !== 'unknown') broken(`${id}, used before, was answered ${answer}`);
      return;
    }
    const state = this.#states.get(id);
    if (answer === state) return;
    // What came in the same task may have changed it since.
    const before = this.#before.get(id);
    if (before?.at === at && before.state === answer) return;
    // Updates that still wait are answered with the final state right before the run ends.
    if (answer !== 'abandoned' && answer !== 'unknown')
      broken(`an update of ${id} was answered ${answer}; it is ${state}`);
    this.#lastAnswers.push({ id, state: answer });
  }

  /** The state shows no write in doubt: if there was one, `decideWithin` is over. */
  nothingUnknown(at: number): void {
    this.#endUnknownInTime(at, true);
  }

  /** A follow-up that waited for another attempt is shown as unknown: `decideWithin` is over. */
  gaveUp(at: number, id: string): void {
    if (this.#write?.id !== id) return;
    this.#giveUpInTime(at, true, this.#write.waitsForTurn);
    this.#endUnknownInTime(at, true);
  }

  /** The phase of a run that is not over. */
  get phase(): string {
    if (this.#unknownSince !== null) return 'needsAttention';
    if (!this.#isJobKnown) return 'creating';
    return this.#write ? 'sending' : 'watching';
  }

  get unknownSince(): number | null {
    return this.#unknownSince;
  }

  /** The follow-ups that state and result must show. */
  get followUps(): { id: string; state: FollowUpState }[] {
    return [...this.#states].map(([id, state]) => ({ id, state }));
  }

  /** The run ended; `result` is null if it failed or was cancelled. */
  ended(at: number, verdict: Verdict, result: (ShownPolls & { reason?: string }) | null): void {
    // The run may end at the same time at which a follow-up is given up.
    this.#giveUpInTime(at, false);
    this.#endUnknownInTime(at, true);
    this.#advanceTo(at);
    if (this.#isSending) broken(`the run ended as ${verdict} while a write was in flight`);
    // A follow-up that is given up at this very moment may have let the run end.
    if (!this.#mayEnd(at, verdict)) this.#giveUpInTime(at, true);
    if (!this.#mayEnd(at, verdict)) broken(`the run ended as ${verdict}; ${this.#expectation()}`);
    if (result) this.#checkResult(at, verdict, result);
    const write = this.#write;
    if (write && write.id !== null && this.#mayHaveArrived(write)) this.#setState(write.id, 'unknown');
    for (const [id, state] of this.#states) if (state === 'queued') this.#setState(id, 'abandoned');
    for (const { id, state: answer } of this.#lastAnswers) {
      const state = this.#states.get(id);
      if (answer !== state) broken(`an update of ${id} was answered ${answer}; it is ${state}`);
    }
  }

  /** The number of polls; null if some were cancelled, so that the result may be an estimate. */
  get sureReads(): number | null {
    return this.#isReadCountSure ? this.#readCount : null;
  }

  get usedIds(): string[] {
    const used = [...this.#states].filter(([, state]) => state !== 'abandoned').map(([id]) => id);
    return [...this.#terms.usedFollowUpIds, ...used];
  }

  /** Throws if the run should have ended before this time. */
  #advanceTo(at: number): void {
    const { tryBy = Infinity } = this.#write ?? {};
    if (!this.#isSending && at > tryBy) broken(`a write should have been tried ${at - tryBy} ms ago`);
    this.#polls.keep(
      (known) => at <= (this.#dueAt(known) ?? Infinity),
      () => `the run should have ended before ${at}: ${this.#expectation()}`,
    );
    this.#polls.keep(
      (known) => at <= this.#readDueAt(known),
      () => 'no read came as the end had stood',
    );
    this.#at = at;
  }

  /** By when a poll must come that shows whether an end stands. */
  #readDueAt(known: Knowledge): number {
    const settle = this.#polls.standsAt(known)?.at ?? Infinity;
    // One that fails may be followed by another as it is planned.
    const isOver = this.#lastReadAt >= settle || (!this.#isAnswered && this.#readEndedAt >= settle);
    if (isOver || this.#reads.size > 0 || this.#isSending) return Infinity;
    // The one under way then ended later, or the key of one before was refused.
    const soon = this.#readEndedAt >= settle || !this.#isAnswered ? this.#readEndedAt + 1_000 : 0;
    const cutUntil = this.#cutAt + Math.max(1_000, this.#pause.ms);
    return Math.max(settle, soon, this.#noReadBefore, this.#freeSince, cutUntil);
  }

  #dueAt(known: Knowledge): number | null {
    if (this.#isEndingSince !== null) return this.#isEndingSince;
    if (this.#isSending) return null;
    if (this.#cancelledAt !== null || this.#stop !== null) return this.#at;
    if (this.#unknownSince !== null || this.#write?.isRetryDue) return null;
    if (this.#isStillSent) return this.#isJobKnown ? null : Math.max(this.#decideBy, this.#freeSince);
    if (known.isGone || (known.counted && this.#isIdle)) return this.#at;
    const deadline = this.#waitsSince === null ? this.#deadline : Infinity;
    if (!this.#isJobKnown) return Math.max(Math.min(deadline, this.#decideBy, this.#startBy), this.#freeSince);
    return Math.max(deadline, this.#freeSince) + LAST_READ_MS;
  }

  #mayEnd(at: number, verdict: Verdict): boolean {
    return this.#polls.known.some((known) => this.#endingsOf(known, at).some((ending) => ending.verdict === verdict));
  }

  /** All ways in which the run may end now. */
  #endingsOf(known: Knowledge, at: number): Ending[] {
    const by = (verdict: Verdict, hasReason = false) => [{ verdict, hasReason }];
    if (this.#cancelledAt !== null) return by('canceled');
    if (this.#stop !== null) return by(this.#stop);
    if (this.#unknownSince !== null || this.#write?.isRetryDue) return [];
    const isDue = this.#waitsSince === null && at >= this.#deadline;
    const write = this.#write;
    // A create that may have created a job must not end as if it had not.
    if (write?.id === null && this.#mayHaveArrived(write)) {
      return (isDue && !this.#isStillSent) || at >= this.#decideBy ? by('UnknownOutcome') : [];
    }
    if (this.#isStillSent) return [];
    const { counted, isGone } = known;
    if (counted && this.#isIdle) return by(counted.end, counted.isBelieved);
    // The last end counts, since no poll comes that can show another.
    const end = this.#polls.lastEnd(known);
    const hasReason = !counted || counted.isBelieved;
    if (isGone) return by(end ?? 'lost', hasReason);
    return isDue || at >= this.#startBy ? by(end ?? 'timedOut', hasReason) : [];
  }

  #checkResult(at: number, verdict: Verdict, result: ShownPolls & { reason?: string }): void {
    const hasReason = result.reason !== undefined;
    const isEnding = (ending: Ending) => ending.verdict === verdict && ending.hasReason === hasReason;
    this.#polls.keep(
      (known) => this.#endingsOf(known, at).some(isEnding),
      () => (hasReason ? `${verdict} needs no reason, and has "${result.reason}"` : `${verdict} needs a reason`),
    );
    this.#polls.shown(result);
  }

  #expectation(): string {
    if (this.#cancelledAt !== null) return 'it was cancelled';
    if (this.#stop !== null) return `it had to end as ${this.#stop}`;
    const idle = this.#isIdle ? 'nothing waits' : 'writes wait';
    const known = this.#polls.known.map(({ stretch, counted, notFound }) => {
      const { end, since } = stretch ?? { end: 'nothing', since: 0 };
      return `polled ${end} since ${since}, counts ${JSON.stringify(counted)}, 404 ${JSON.stringify(notFound)}`;
    });
    return `${idle}, ${known.join(' or ')}, deadline ${this.#deadline}, unknown since ${this.#unknownSince}`;
  }

  get #asks(): boolean {
    return this.#terms.isRepeated || this.#terms.onUnknownOutcome === 'ask';
  }

  /** Whether a write that may have arrived waits for its next send under policy `retry`, or for its turn. */
  get #isStillSent(): boolean {
    const write = this.#write;
    return write !== null && this.#mayHaveArrived(write) && (!write.isHeldUp || write.isQueued);
  }

  /** When `decideWithin` is over for a write in doubt that waits for another attempt. */
  get #decideBy(): number {
    const { decideWithin } = this.#terms;
    const { inDoubtSince: since, isHeldUp } = this.#write ?? newWrite(null);
    // The next of a few sends of policy `retry` is near.
    return decideWithin === null || since === null || !isHeldUp ? Infinity : since + decideWithin;
  }

  /** When the create has waited too long for its first turn. */
  get #startBy(): number {
    const write = this.#write;
    const waits = write?.id === null && write.isHeldUp && !this.#mayHaveArrived(write);
    return waits ? this.#startedAt + (this.#terms.startWithin ?? Infinity) : Infinity;
  }

  get #isIdle(): boolean {
    return this.#isJobKnown && this.#write === null && this.#unknownSince === null;
  }

  #nextWrite(): void {
    if (this.#write || !this.#isJobKnown) return;
    const id = this.#queue.shift();
    if (id === undefined) return;
    this.#write = newWrite(id);
  }

  #jobKnown(at: number, record: SentRecord | null): void {
    this.#isJobKnown = true;
    this.#write = null;
    this.#restartClock(at);
    this.#polls.jobCreated(record);
    this.#nextWrite();
  }

  #settle(at: number, state: 'sent' | 'rejected' | 'unknown', record: SentRecord | null = null): void {
    this.#setState(this.#write!.id!, state);
    this.#write = null;
    if (state !== 'rejected') {
      this.#cutBatch(at);
      this.#polls.followUpTaken(at, record);
      this.#restartClock(at);
    }
    this.#nextWrite();
  }

  #restartClock(at: number): void {
    this.#waitsSince = null;
    this.#deadline = at + this.#terms.deadline;
  }

  #setState(id: string, state: FollowUpState): void {
    this.#before.set(id, { state: this.#states.get(id), at: this.#at });
    this.#states.set(id, state);
  }

  #unknown(at: number, write: Write): void {
    if (this.#asks) {
      this.#unknownSince = at;
      if (write.id !== null) this.#setState(write.id, 'unknown');
      return;
    }
    write.unknownSends += 1;
    write.inDoubtSince ??= at;
    write.notBefore = at + Math.min(1_000 * 2 ** (write.unknownSends - 1), 300_000);
    if (this.#terms.onUnknownOutcome === 'retry' && write.unknownSends < 5) return;
    this.#stop = 'UnknownOutcome';
    if (write.id !== null) this.#setState(write.id, 'unknown');
  }

  /** Applies `decideWithin`. */
  #decideInTime(at: number, isInclusive: boolean): void {
    this.#giveUpInTime(at, isInclusive);
    this.#endUnknownInTime(at, isInclusive);
  }

  #endUnknownInTime(at: number, isInclusive: boolean): void {
    const { decideWithin } = this.#terms;
    if (this.#unknownSince === null || decideWithin === null || this.#cancelledAt !== null) return;
    const due = this.#unknownSince + decideWithin;
    if (at < due || (at === due && !isInclusive)) return;
    this.#clockGoesOn(due);
    this.#at = Math.max(this.#at, due);
    if (this.#write!.id === null) this.#stop = 'UnknownOutcome';
    else this.#settle(due, 'unknown');
  }

  /** A follow-up in doubt that waits for another attempt is given up when `decideWithin` is over. */
  #giveUpInTime(at: number, isInclusive: boolean, isShown = false): void {
    const write = this.#write;
    if (!write || write.id === null || !write.isHeldUp || this.#isSending || this.#cancelledAt !== null) return;
    const due = Math.max(this.#decideBy, this.#freeSince);
    if (at < due || (at === due && !isInclusive)) return;
    if (write.notBefore > due || isShown) this.#settle(due, 'unknown');
  }

  #clockGoesOn(at: number): void {
    this.#deadline += at - this.#unknownSince!;
    this.#unknownSince = null;
    this.#freeSince = at;
  }

  #mayHaveArrived(write: Write): boolean {
    return write.unknownSends > 0 || write.isConfirmed || this.#unknownSince !== null;
  }

  /** Something calls for another poll: one that is under way may be given up. */
  #cutBatch(at: number): void {
    this.#cutAt = at;
    this.#readCalls = at === this.#readCalledForAt ? this.#readCalls + 1 : 1;
    this.#readCalledForAt = at;
    this.#isReadCountSure = false;
  }
}

function newWrite(id: string | null): Write {
  return {
    id,
    unknownSends: 0,
    inDoubtSince: null,
    isHeldUp: false,
    isConfirmed: false,
    waitsForTurn: false,
    isRetryDue: false,
    throttled: 0,
    notBefore: 0,
    isQueued: false,
    turn: null,
    tryBy: Infinity,
    nextTurn: null,
  };
}

function broken(promise: string): never {
  throw new BrokenPromise(promise);
}
