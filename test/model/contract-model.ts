/**
 * What docs/contract.md promises about `agentJob`, as a small monitor: it is told what happens outside the workflow and says,
 * at each step and at the end, what must and what may be. It knows nothing of how the workflow is made. Times in milliseconds.
 */
export interface Terms {
  isAttached: boolean;
  usedFollowUpIds: string[];
  deadline: number;
  onUnknownOutcome: 'ask' | 'fail' | 'retry';
  decideWithin: number | null;
  settle: number;
  linger: number;
  /** Temporal itself started the run again: every write asks before it is sent. */
  isRepeated: boolean;
}

export type SendOutcome =
  'accepted' | 'acceptedTerminal' | 'rejected' | 'throttled' | 'notDelivered' | 'unauthorized' | 'inDoubt';
export type ReadOutcome = 'record' | 'missing' | 'failed';
export type FollowUpFate = 'queued' | 'sent' | 'rejected' | 'unknown' | 'abandoned';

/** How a run ended: a result's outcome, `canceled`, or a failure's type. */
export type Verdict = string;

interface Turn {
  /** Null: the create. */
  id: string | null;
  /** Sends of unknown outcome under policy `retry`, and when the first of them was in doubt. */
  unknownSends: number;
  inDoubtSince: number | null;
  /** The last try was refused for now, or never left. */
  isHeldUp: boolean;
  /** A send of unknown outcome that a person sent again. */
  isConfirmed: boolean;
  /** Refused for now: others of the project, or its key, may keep it waiting for longer than its own time. */
  waitsForTurn: boolean;
  /** A person said so, and nothing was tried since. */
  isOwed: boolean;
  /** Refusals and failures to connect in a row. */
  delays: { throttled: number; notDelivered: number };
  notBefore: number;
}

interface Read {
  beganAt: number;
  wasIdle: boolean;
  /** Somebody wanted the job read anew while this was under way: it may be dropped. */
  isDoubtful: boolean;
}

/** The last look at the deadline may be a request that hangs. */
const LAST_LOOK_MS = 45_000;
const LOST = { count: 5, ms: 60_000 };
/** A second, jittered. */
const SHORTEST_WAIT_MS = 900;
const HOUR = 3_600_000;
/** The read of a job that somebody wants to adopt: none of the watch's. */
const LOOK_TO_ADOPT = 0;
const TERMINAL = ['completed', 'archived', 'failed'];

export class BrokenPromise extends Error {}

export class ContractModel {
  readonly #terms: Terms;
  /** Clock differences between whoever tells this model and the workflow. */
  readonly #slack: number;
  /** How much later than it must the run may end. */
  readonly #lateness: number;
  /** When it was last told of anything. */
  #at: number;
  /** Since when no write keeps the run from ending. */
  #freeSince = 0;
  readonly #fates = new Map<string, FollowUpFate>();
  /** All fates that an id has had. */
  readonly #had = new Map<string, Set<FollowUpFate>>();
  readonly #prompts = new Map<string, string>();
  #turn: Turn | null = null;
  #queue: string[] = [];
  #isSending = false;
  #isJobKnown: boolean;
  #unknownSince: number | null = null;
  #cancelledAt: number | null = null;
  #stop: Verdict | null = null;
  /** Earliest and latest end of the time to wait; they differ where the contract leaves it open. */
  #deadline: { min: number; max: number };
  #settledAt = 0;
  #reads = new Map<number, Read>();
  #readCount = 0;
  #noReadBefore = 0;
  #lastReadAt = -Infinity;
  #readEndedAt = -Infinity;
  /** Why a read may follow the last one sooner than a second. */
  #mayReadAtOnce = true;
  #missing: { count: number; since: number; sure: number } | null = null;
  /** Terminal statuses that may end the run, and since when one must. */
  #mayEndAs = new Set<string>();
  #mustEndSince: number | null = null;
  #lastAnswers: { id: string; state: FollowUpFate }[] = [];
  #isReadCountSure = true;
  /** Somebody wants to adopt a job, which is read first. */
  #isAdopting = false;

  constructor(terms: Terms, startedAt: number, { slack, lateness } = { slack: 0, lateness: 0 }) {
    this.#terms = terms;
    this.#slack = slack;
    this.#lateness = lateness;
    this.#at = startedAt;
    this.#isJobKnown = terms.isAttached;
    this.#deadline = { min: startedAt + terms.deadline, max: startedAt + terms.deadline };
    if (!terms.isAttached) this.#turn = newTurn(null);
  }

  /** A follow-up reached the run, by signal or update. */
  asked(at: number, id: string, prompt: string): void {
    this.#goOn(at);
    if (this.#fates.has(id) || this.#terms.usedFollowUpIds.includes(id)) return;
    this.#fate(id, 'queued');
    this.#prompts.set(id, prompt);
    this.#queue.push(id);
    this.#isReadCountSure = false;
    this.#nextTurn(at);
  }

  /** It turned out that the run had ended before. */
  neverAsked(id: string, prompt: string): void {
    if (this.#prompts.get(id) !== prompt) return;
    if (this.#turn?.id === id) this.#turn = null;
    else this.#queue = this.#queue.filter((queued) => queued !== id);
    this.#fates.delete(id);
    this.#nextTurn(this.#at);
  }

  pollNow(at: number): void {
    this.#goOn(at);
    this.#doubtReads(at);
  }

  cancelRequested(at: number): void {
    this.#goOn(at);
    this.#cancelledAt ??= at;
    this.#isReadCountSure = false;
  }

  /** The run goes on in a new one: waiting updates may have been answered, a poll was cut short. */
  continuedAsNew(at: number): void {
    this.#goOn(at);
    this.#doubtReads(at);
  }

  sendBegan(at: number, kind: 'create' | 'message', prompt: string): void {
    this.#decideInTime(at, true);
    this.#goOn(at);
    const turn = this.#turn;
    if (!turn) return broken(`a ${kind} is sent though nothing waits`);
    if ((turn.id === null) !== (kind === 'create')) broken(`a ${kind} is sent out of its turn`);
    if (turn.id !== null && this.#prompts.get(turn.id) !== prompt)
      broken(`"${prompt}" is sent in the turn of ${turn.id}`);
    if (this.#isSending) broken('two writes are under way');
    if (this.#terms.isRepeated && !turn.isConfirmed) broken('a repeated run sends without asking');
    if (this.#unknownSince !== null) broken('a write is sent while another is unknown');
    if (this.#stop !== null) broken(`a write is sent after ${this.#stop}`);
    if (at > (this.#cancelledAt ?? Infinity) + this.#slack) broken('a write is sent after the cancellation');
    if (at < turn.notBefore - this.#slack) broken(`a write is sent ${turn.notBefore - at} ms too soon`);
    this.#isSending = true;
  }

  /** What the activity found out about the send. */
  sendEnded(at: number, outcome: SendOutcome, status: string | null, retryAfterMs?: number): void {
    const turn = this.#turn;
    if (!turn) return broken('an answer to nothing');
    // Other writes of the project may have been asked to wait, reads may have shown that the key is refused; a repeated run asks first.
    const mayBeUnsent = outcome === 'throttled' || outcome === 'unauthorized' || this.#asks;
    if (!this.#isSending && !mayBeUnsent) broken(`${outcome}, though nothing was sent`);
    this.#goOn(at);
    this.#isSending = false;
    turn.isOwed = false;
    turn.waitsForTurn = outcome === 'throttled' || outcome === 'unauthorized';
    this.#freeSince = at;
    turn.isHeldUp = outcome === 'throttled' || outcome === 'notDelivered' || outcome === 'unauthorized';
    switch (outcome) {
      case 'accepted':
      case 'acceptedTerminal':
        return turn.id === null
          ? this.#jobKnown(at, outcome === 'acceptedTerminal' ? status : null)
          : this.#settle(at, 'sent');
      case 'rejected':
        if (turn.id === null) this.#stop = this.#mayHaveArrived(turn) ? 'UnknownOutcome' : 'CreateRejected';
        else this.#settle(at, this.#mayHaveArrived(turn) ? 'unknown' : 'rejected');
        return;
      case 'throttled': {
        turn.delays.throttled += 1;
        const wait =
          retryAfterMs === undefined
            ? 5_000 * 2 ** (turn.delays.throttled - 1)
            : Math.max(1_000, Math.min(retryAfterMs, HOUR));
        turn.notBefore = at + Math.min(wait, retryAfterMs === undefined ? 300_000 : Infinity);
        return;
      }
      case 'notDelivered':
        turn.notBefore = at + 1_000;
        return;
      case 'unauthorized':
        turn.notBefore = at;
        return;
      case 'inDoubt':
        return this.#unknown(at, turn);
    }
  }

  /** A person says `adopt`: the job may be read, and then `resolved` or `adoptRefused` follows. */
  adoptAsked(at: number): void {
    this.#goOn(at);
    this.#isAdopting = true;
  }

  adoptRefused(): void {
    this.#isAdopting = false;
  }

  /** A person's decision that the run accepted. */
  resolved(at: number, action: 'adopt' | 'delivered' | 'retry' | 'abandon'): void {
    this.#decideInTime(at, false);
    this.#goOn(at);
    const turn = this.#turn;
    if (this.#unknownSince === null || !turn) return broken(`${action} was accepted though nothing is unknown`);
    if (action === 'adopt' && turn.id !== null) broken('a follow-up was adopted');
    if (action === 'delivered' && turn.id === null) broken('a create was called delivered');
    this.#isAdopting = false;
    this.#clockGoesOn(at);
    this.#doubtReads(at);
    if (action === 'adopt') this.#jobKnown(at, null);
    else if (action === 'delivered') this.#settle(at, 'sent');
    else if (action === 'retry') {
      this.#turn = { ...newTurn(turn.id), isConfirmed: true, isOwed: true };
      if (turn.id !== null) this.#fate(turn.id, 'queued');
    } else if (turn.id === null) this.#stop = 'abandoned';
    else this.#settle(at, 'unknown');
  }

  readBegan(at: number): number {
    if (this.#isAdopting && !this.#isJobKnown) return LOOK_TO_ADOPT;
    this.#decideInTime(at, true);
    this.#goOn(at);
    if (!this.#isJobKnown) broken('a job is read before its id is known');
    if (at < this.#noReadBefore - this.#slack)
      broken(`a read comes ${this.#noReadBefore - at} ms before Retry-After allows it`);
    // The last look at the deadline, and the one that settles, come when they must.
    const isDue = at >= this.#deadline.min - this.#slack || Math.abs(at - this.#settledAt) <= this.#slack;
    if (!this.#mayReadAtOnce && !isDue && at < this.#lastReadAt + SHORTEST_WAIT_MS - this.#slack)
      broken('two reads within a second');
    this.#lastReadAt = at;
    this.#mayReadAtOnce = false;
    this.#readCount += 1;
    this.#reads.set(this.#readCount, { beganAt: at, wasIdle: this.#isIdle, isDoubtful: false });
    return this.#readCount;
  }

  readEnded(at: number, number: number, outcome: ReadOutcome, status: string | null, retryAfterMs = 0): void {
    if (number === LOOK_TO_ADOPT) return;
    const read = this.#reads.get(number)!;
    this.#reads.delete(number);
    this.#readEndedAt = at;
    if (!read.isDoubtful) this.#decideInTime(at, false);
    this.#goOn(at);
    if (outcome === 'failed' && !read.isDoubtful && retryAfterMs > 1_000) {
      this.#noReadBefore = at + Math.min(retryAfterMs, HOUR);
    }
    this.#countMissing(at, outcome === 'missing', read.isDoubtful);
    if (outcome !== 'record' || status === null) return;
    if (!TERMINAL.includes(status)) this.#stillActive(at, read);
    else if (at >= this.#settledAt - this.#slack) {
      if (!read.isDoubtful) this.#mayEndAs.clear();
      this.#mayEndAs.add(status);
      if (read.wasIdle && this.#isIdle && !read.isDoubtful && at >= this.#settledAt + this.#slack)
        this.#mustEndSince ??= at;
    }
  }

  /** What the last read brought has reached the run. */
  readReached(): void {
    this.#readEndedAt = -Infinity;
  }

  /** An update was answered. */
  answered(_at: number, id: string, state: FollowUpFate): void {
    if (this.#terms.usedFollowUpIds.includes(id)) {
      if (state !== 'unknown') broken(`${id}, used before, was answered ${state}`);
      return;
    }
    const fate = this.#fates.get(id);
    // Where answers take time, what was true before may be told now.
    if (this.#slack > 0 ? this.#had.get(id)?.has(state) : state === fate) return;
    // Those who wait are told how it ends right before it does.
    if (state !== 'abandoned' && state !== 'unknown') broken(`an update of ${id} was answered ${state}; it is ${fate}`);
    this.#lastAnswers.push({ id, state });
  }

  /** Nothing is shown as unknown: where something was, its time to decide is over. */
  nothingUnknown(at: number): void {
    this.#endUnknownInTime(at, true);
  }

  /** A follow-up that was being sent again is shown as unknown: its time is over. */
  gaveUp(at: number, id: string): void {
    if (this.#turn?.id !== id) return;
    this.#giveUpInTime(at, true, this.#turn.waitsForTurn);
    this.#endUnknownInTime(at, true);
  }

  get unknownSince(): number | null {
    return this.#unknownSince;
  }

  /** What everybody must be able to see of the follow-ups. */
  get followUps(): { id: string; state: FollowUpFate }[] {
    return [...this.#fates].map(([id, state]) => ({ id, state }));
  }

  /** The run ended. */
  ended(at: number, verdict: Verdict): void {
    // At the very moment when a follow-up is given up the run may end as well.
    this.#giveUpInTime(at, false);
    this.#endUnknownInTime(at, true);
    this.#goOn(at);
    if (this.#isSending) broken(`the run ended as ${verdict} while a write was in flight`);
    if (!this.#mayEnd(at, verdict)) broken(`the run ended as ${verdict}; ${this.#expectation()}`);
    const turn = this.#turn;
    if (turn && turn.id !== null && this.#mayHaveArrived(turn)) this.#fate(turn.id, 'unknown');
    for (const [id, fate] of this.#fates) if (fate === 'queued') this.#fate(id, 'abandoned');
    if (TERMINAL.includes(verdict) && [...this.#fates.values()].includes('abandoned'))
      broken('a follow-up was dropped at the end');
    for (const { id, state } of this.#lastAnswers) {
      const fate = this.#fates.get(id);
      if (state !== fate) broken(`an update of ${id} was answered ${state}; it is ${fate}`);
    }
  }

  /** Reads so far; null where some were cut short, so that the result may estimate. */
  get sureReads(): number | null {
    return this.#isReadCountSure ? this.#readCount : null;
  }

  get usedIds(): string[] {
    const used = [...this.#fates].filter(([, fate]) => fate !== 'abandoned').map(([id]) => id);
    return [...this.#terms.usedFollowUpIds, ...used];
  }

  /** Time has come to this moment: what had to happen before has happened. */
  #goOn(at: number): void {
    const due = this.#dueAt();
    if (due !== null && at > due + this.#lateness)
      broken(`the run should have ended ${at - due} ms ago: ${this.#expectation()}`);
    this.#at = at;
  }

  #dueAt(): number | null {
    if (this.#isSending) return null;
    if (this.#cancelledAt !== null || this.#stop !== null) return this.#at;
    if (this.#unknownSince !== null || this.#isResending || this.#turn?.isOwed) return null;
    if (this.#missing && this.#missing.sure >= LOST.count && this.#missing.since === -1) return this.#at;
    if (this.#mustEndSince !== null) {
      return this.#isIdle ? Math.max(this.#mustEndSince + this.#terms.linger, this.#freeSince) : null;
    }
    if (this.#mayEndAs.size > 0) return null;
    if (!this.#isJobKnown) return Math.max(Math.min(this.#deadline.max, this.#decideBy), this.#freeSince);
    return Math.max(this.#deadline.max, this.#freeSince) + LAST_LOOK_MS;
  }

  #mayEnd(at: number, verdict: Verdict): boolean {
    if (this.#cancelledAt !== null) return verdict === 'canceled';
    if (this.#stop !== null) return verdict === this.#stop;
    if (this.#unknownSince !== null || this.#isResending) return false;
    if (this.#turn?.isOwed) return false;
    const isDue = at >= this.#deadline.min - this.#slack;
    const turn = this.#turn;
    // A create that may have made a job must not end as if there were none.
    if (turn?.id === null && this.#mayHaveArrived(turn)) {
      return verdict === 'UnknownOutcome' && (isDue || at >= this.#decideBy - this.#slack);
    }
    if (verdict === 'timedOut') return isDue;
    if (verdict === 'lost') return this.#missing !== null && this.#missing.count >= LOST.count;
    return this.#isIdle && this.#mayEndAs.has(verdict);
  }

  #expectation(): string {
    if (this.#cancelledAt !== null) return 'it was cancelled';
    if (this.#stop !== null) return `it had to end as ${this.#stop}`;
    const idle = this.#isIdle ? 'nothing waits' : 'writes wait';
    const missing = this.#missing ? `, ${this.#missing.count} times 404` : '';
    return `${idle}, may end as [${[...this.#mayEndAs].join()}], deadline ${this.#deadline.min}..${this.#deadline.max}${missing}, unknown since ${this.#unknownSince}`;
  }

  get #asks(): boolean {
    return this.#terms.isRepeated || this.#terms.onUnknownOutcome === 'ask';
  }

  /** Between two sends of policy `retry`, unless it is held up. */
  get #isResending(): boolean {
    return this.#turn !== null && this.#turn.unknownSends > 0 && !this.#turn.isHeldUp;
  }

  /** When the time is over for a write in doubt that is held up. */
  get #decideBy(): number {
    const { decideWithin } = this.#terms;
    const since = this.#turn?.inDoubtSince ?? null;
    return decideWithin === null || since === null ? Infinity : since + decideWithin;
  }

  get #isIdle(): boolean {
    return this.#isJobKnown && this.#turn === null && this.#unknownSince === null;
  }

  #nextTurn(at: number): void {
    if (this.#turn || !this.#isJobKnown) return;
    const id = this.#queue.shift();
    if (id === undefined) return;
    this.#turn = newTurn(id);
    // No clock ran while the job had ended.
    if (this.#mayEndAs.size > 0) this.#deadline.max = at + this.#terms.deadline;
  }

  #jobKnown(at: number, status: string | null): void {
    this.#isJobKnown = true;
    this.#turn = null;
    this.#restartClock(at);
    if (status !== null) {
      this.#mayEndAs.add(status);
      this.#mustEndSince = at;
    }
    this.#nextTurn(at);
  }

  #settle(at: number, fate: 'sent' | 'rejected' | 'unknown'): void {
    this.#fate(this.#turn!.id!, fate);
    this.#turn = null;
    this.#doubtReads(at);
    if (fate !== 'rejected') {
      // Nobody can tell apart what is accepted in one moment.
      const isSame = this.#settledAt === at + this.#terms.settle;
      this.#settledAt = at + this.#terms.settle;
      this.#mayEndAs.clear();
      this.#mustEndSince = null;
      this.#missing = isSame && this.#missing ? { ...this.#missing, sure: 0 } : null;
      this.#restartClock(at);
    }
    this.#nextTurn(at);
  }

  #restartClock(at: number): void {
    this.#deadline = { min: at + this.#terms.deadline, max: at + this.#terms.deadline };
  }

  #fate(id: string, fate: FollowUpFate): void {
    this.#fates.set(id, fate);
    this.#had.set(id, (this.#had.get(id) ?? new Set()).add(fate));
  }

  #unknown(at: number, turn: Turn): void {
    if (this.#asks) {
      this.#unknownSince = at;
      if (turn.id !== null) this.#fate(turn.id, 'unknown');
      return;
    }
    turn.unknownSends += 1;
    turn.inDoubtSince ??= at;
    turn.notBefore = at + Math.min(1_000 * 2 ** (turn.unknownSends - 1), 300_000);
    if (this.#terms.onUnknownOutcome === 'retry' && turn.unknownSends < 5) return;
    this.#stop = 'UnknownOutcome';
    if (turn.id !== null) this.#fate(turn.id, 'unknown');
  }

  /** When nobody has decided in time, the contract does. */
  #decideInTime(at: number, isInclusive: boolean): void {
    this.#giveUpInTime(at, isInclusive);
    this.#endUnknownInTime(at, isInclusive);
  }

  #endUnknownInTime(at: number, isInclusive: boolean): void {
    const { decideWithin } = this.#terms;
    if (this.#unknownSince === null || decideWithin === null || this.#cancelledAt !== null) return;
    const due = this.#unknownSince + decideWithin;
    if (at < due - (isInclusive ? this.#slack : 0) || (at === due && !isInclusive)) return;
    this.#clockGoesOn(due);
    this.#at = Math.max(this.#at, due);
    if (this.#turn!.id === null) this.#stop = 'UnknownOutcome';
    else this.#settle(due, 'unknown');
  }

  /** A follow-up in doubt that is held up is given up when its time is over. */
  #giveUpInTime(at: number, isInclusive: boolean, isShown = false): void {
    const turn = this.#turn;
    if (!turn || turn.id === null || !turn.isHeldUp || this.#isSending || this.#cancelledAt !== null) return;
    const due = Math.max(this.#decideBy, this.#freeSince);
    if (at < due - (isInclusive ? this.#slack : 0) || (at === due && !isInclusive)) return;
    if (turn.notBefore > due || isShown) this.#settle(due, 'unknown');
  }

  #clockGoesOn(at: number): void {
    const stood = at - this.#unknownSince!;
    this.#deadline = { min: this.#deadline.min + stood, max: this.#deadline.max + stood };
    this.#unknownSince = null;
    this.#missing = null;
    this.#freeSince = at;
  }

  #mayHaveArrived(turn: Turn): boolean {
    return turn.unknownSends > 0 || turn.isConfirmed || this.#unknownSince !== null;
  }

  #stillActive(at: number, read: Read): void {
    // At the very moment when the run has to end it may not matter any more.
    const isTooLate = this.#mustEndSince !== null && at >= this.#mustEndSince + this.#terms.linger - this.#slack;
    this.#mustEndSince = null;
    if (this.#mayEndAs.size > 0) this.#deadline.max = at + this.#terms.deadline;
    if (!read.isDoubtful && !isTooLate) this.#mayEndAs.clear();
  }

  #countMissing(at: number, isMissing: boolean, isDoubtful: boolean): void {
    if (!isMissing) {
      if (!isDoubtful) this.#missing = null;
      return;
    }
    const before = this.#missing ?? { count: 0, since: at, sure: 0 };
    const isLong = before.since === -1 || at - before.since >= LOST.ms;
    const sure = before.sure + (isDoubtful ? 0 : 1);
    this.#missing = {
      count: before.count + 1,
      sure,
      since: isLong && !isDoubtful && sure >= LOST.count ? -1 : before.since,
    };
  }

  /** What was read at this very moment, or is being read, may not reach the run. */
  #doubtReads(at: number): void {
    if (this.#readEndedAt >= at - this.#slack) {
      this.#mustEndSince = null;
      this.#noReadBefore = 0;
    }
    for (const read of this.#reads.values()) read.isDoubtful = true;
    this.#mayReadAtOnce = true;
    this.#isReadCountSure = false;
  }
}

function newTurn(id: string | null): Turn {
  return {
    id,
    unknownSends: 0,
    inDoubtSince: null,
    isHeldUp: false,
    isConfirmed: false,
    waitsForTurn: false,
    isOwed: false,
    delays: { throttled: 0, notDelivered: 0 },
    notBefore: 0,
  };
}

function broken(promise: string): never {
  throw new BrokenPromise(promise);
}
