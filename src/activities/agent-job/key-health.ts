/**
 * Decides which writes are held. A write whose key is refused (401, 403) or missing, or that something on the way
 * answered, holds the writes of its project and operation. One of them tries each minute, and one at once with another
 * key; an accepted one lets the others go. Polls and exports decide nothing.
 */
import type { WriteOperation } from '../metrics.js';
import type { WriteOutcome } from '../../contract/write-outcome.js';
import type { Upstream } from '../../upstream/upstream.js';

/** A write that wants to leave; its workflow has one at a time. */
interface WantedWrite {
  operation: WriteOperation;
  projectId: string;
  workflowId: string;
}

/** Why writes are held. */
type HeldFor = Pick<WriteOutcome & { kind: 'unauthorized' | 'blocked' }, 'kind' | 'reason'>;

/** A moment, and the key that there was: null if there was none. */
interface Moment {
  at: number;
  version: string | null;
}

/** What holds the writes of a project and operation. */
interface Hold extends HeldFor {
  projectId: string;
  /** The write that was let go last, or whose answer holds the others, by its workflow. */
  by: string;
  tried: Moment;
  /** That write was let go, and its answer is not known yet. */
  isTrying: boolean;
  /** When a write that waits was last promised a try. It may have ended since, or another worker may send it. */
  promised: Moment;
  /** Until then a write is known to wait, and one of another workflow than `by`. */
  waitedUntil: number;
  othersUntil: number;
}

/** What the health of keys is made of. */
export interface KeyHealthOptions {
  upstream: Pick<Upstream, 'keyVersion'>;
  /** Called once for each change: why the writes of a project and operation are held, null when they may go. */
  onChange?: (writes: Omit<WantedWrite, 'workflowId'>, held: HeldFor | null) => void;
  /** In milliseconds. */
  now?: () => number;
  tryEveryMs?: number;
  /** The number of waiting writes that may ask in a second. */
  asksPerSecond?: number;
}

/** Each write that waits asks after this time; of thousands at most 20 ask in a second. */
const ASK_EVERY_MS = 5_000;
const ASKS_PER_SECOND = 20;
/** A worker that serves every project keeps little. */
const MAX_REMEMBERED = 10_000;

/** What the answers to this worker's writes show of the projects' keys, and of what is on the way. */
export class KeyHealth {
  readonly #options: Required<KeyHealthOptions>;
  readonly #holds = new Map<string, Hold>();
  /** When the upstream last accepted the key of a project's write. */
  readonly #acceptedAt = new Map<string, number>();
  #lastAskAt = -Infinity;

  constructor({ asksPerSecond = ASKS_PER_SECOND, ...options }: KeyHealthOptions) {
    const defaults = { onChange: () => {}, now: () => performance.now(), tryEveryMs: 60_000 };
    this.#options = { ...defaults, ...options, asksPerSecond: Math.min(asksPerSecond, ASKS_PER_SECOND) };
  }

  /** The projects with writes that wait for a key. */
  get refusedProjects(): string[] {
    const now = this.#options.now();
    const waiting = [...this.#holds.values()].filter((hold) => hold.kind === 'unauthorized' && now < hold.waitedUntil);
    return [...new Set(waiting.map(({ projectId }) => projectId))];
  }

  /** Why a write is held that could leave now. Null lets it go: if others are held, it tries for them. */
  async heldNow(write: WantedWrite): Promise<HeldFor | null> {
    const now = await this.#now(write);
    // No wait follows: of those that come at once, one is let go.
    const hold = this.#holds.get(nameOf(write));
    if (!hold || (hold.isTrying && hold.by === write.workflowId)) return null;
    if (!this.#mayTry(hold, write, now)) return this.#noteWait(hold, write, now.at + this.#options.tryEveryMs);
    hold.by = write.workflowId;
    hold.tried = now;
    hold.isTrying = true;
    hold.othersUntil = 0;
    return null;
  }

  /** The same for a write that waits, and when it asks again. Null promises a try. */
  async ask(write: WantedWrite): Promise<(HeldFor & { askAgainMs: number }) | null> {
    const now = await this.#now(write);
    const hold = this.#holds.get(nameOf(write));
    if (!hold) return null;
    if (this.#mayTry(hold, write, now) && this.#isDue(hold, hold.promised, now)) {
      hold.promised = now;
      return null;
    }
    this.#lastAskAt = Math.max(this.#lastAskAt + 1_000 / this.#options.asksPerSecond, now.at + ASK_EVERY_MS);
    return { ...this.#noteWait(hold, write, this.#lastAskAt), askAgainMs: this.#lastAskAt - now.at };
  }

  /** Notes how a write ended that left, and whether it holds no others. */
  async ended(write: WantedWrite, outcome: WriteOutcome): Promise<WriteOutcome> {
    if (outcome.kind === 'accepted' || outcome.kind === 'rejected') this.#accepted(write);
    if (outcome.kind !== 'unauthorized' && outcome.kind !== 'blocked') return outcome;
    const now = await this.#now(write);
    // A firewall may stop one prompt.
    const mayBeAlone = outcome.kind === 'blocked' || outcome.isForbidden === true;
    const isJustAccepted = now.at - (this.#acceptedAt.get(write.projectId) ?? -Infinity) < this.#options.tryEveryMs;
    if (mayBeAlone && isJustAccepted && !this.#holds.has(nameOf(write))) return { ...outcome, isAlone: true };
    this.#hold(write, outcome, now);
    return outcome;
  }

  #accepted(write: WantedWrite): void {
    if (this.#acceptedAt.size >= MAX_REMEMBERED) this.#acceptedAt.clear();
    this.#acceptedAt.set(write.projectId, this.#options.now());
    if (this.#holds.delete(nameOf(write))) this.#options.onChange(write, null);
  }

  #hold(write: WantedWrite, { kind, reason }: HeldFor, now: Moment): void {
    const { projectId, workflowId: by } = write;
    const before = this.#holds.get(nameOf(write));
    const waitedUntil = Math.max(before?.waitedUntil ?? 0, now.at + this.#options.tryEveryMs);
    const othersUntil = before?.by === by ? before.othersUntil : 0;
    const [oldest] = this.#holds.keys();
    if (!before && this.#holds.size >= MAX_REMEMBERED) this.#holds.delete(oldest!);
    const last = { by, tried: now, promised: now, isTrying: false };
    this.#holds.set(nameOf(write), { projectId, kind, reason, ...last, waitedUntil, othersUntil });
    if (before?.kind !== kind) this.#options.onChange(write, { kind, reason });
  }

  /** Whether it is time for a try, and for this write: the one that tried last comes after the others. */
  #mayTry(hold: Hold, { workflowId }: WantedWrite, now: Moment): boolean {
    return this.#isDue(hold, hold.tried, now) && !(hold.by === workflowId && now.at < hold.othersUntil);
  }

  /** Whether a minute has passed, or the key is another one. That says nothing of what is on the way. */
  #isDue({ kind }: HeldFor, last: Moment, now: Moment): boolean {
    if (kind === 'unauthorized' && now.version !== last.version) return true;
    return !(kind === 'unauthorized' && now.version === null) && now.at - last.at >= this.#options.tryEveryMs;
  }

  /** A write counts as waiting until a minute after it should have asked again. */
  #noteWait(hold: Hold, { workflowId }: WantedWrite, asksAt: number): HeldFor {
    const until = asksAt + this.#options.tryEveryMs;
    hold.waitedUntil = Math.max(hold.waitedUntil, until);
    if (workflowId !== hold.by) hold.othersUntil = Math.max(hold.othersUntil, until);
    return { kind: hold.kind, reason: hold.reason };
  }

  /** The version is null if there is no key, or it can't be read. */
  async #now({ projectId }: WantedWrite): Promise<Moment> {
    const version = await this.#options.upstream.keyVersion(projectId).catch(() => null);
    return { at: this.#options.now(), version };
  }
}

function nameOf({ operation, projectId }: WantedWrite): string {
  return `${operation} ${projectId}`;
}
