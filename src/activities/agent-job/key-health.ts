/**
 * Which projects' keys the upstream refuses (401, 403), or have none, as reads and writes of this worker show. A
 * refused key is tried again by a read, once a minute or when it changes, however many jobs wait for it.
 */
import { tryLater } from '../../temporal/activity-attempt.js';
import type { Metrics } from '../metrics.js';
import { ReadFailedError, RejectedError } from '../../upstream/errors.js';
import type { WriteOutcome } from '../../contract/write-outcome.js';
import type { Upstream } from '../../upstream/upstream.js';

interface Refusal {
  reason: string;
  byWrite: boolean;
  /** The version of the key that was refused. */
  version: string | null;
  triedAt: number;
  isTrying: boolean;
  /** A read was answered: whether writes are taken too, a write must show. */
  mayWrite: boolean;
}

export interface KeyHealthOptions {
  upstream: Upstream;
  metrics: Pick<Metrics, 'keyRefused'>;
  /** Told once for each change of a project: why its key is refused, null when it is accepted. */
  onChange?: (projectId: string, reason: string | null) => void;
  /** In milliseconds. */
  now?: () => number;
  tryEveryMs?: number;
}

const TRY_EVERY_MS = 60_000;
/**
 * Reads that are answered for so many times as long clear a key, whose last write was refused and followed by no other.
 */
const BELIEVE_READS_AFTER = 10;
/** No job has this id: an answer that there is none shows that the key was accepted. */
const NO_JOB = 'agent-jobs-key-check';

type Operation = 'create' | 'message' | 'get' | 'visitors';

export class KeyHealth {
  /** The upstream, each of whose answers is noted here. */
  readonly upstream: Upstream;
  readonly #upstream: Upstream;
  readonly #options: KeyHealthOptions;
  readonly #now: () => number;
  readonly #tryEveryMs: number;
  readonly #refusals = new Map<string, Refusal>();
  /** When a project's write, and read, was last accepted; the oldest first. */
  readonly #acceptedAt = new Map<string, number>();

  constructor(options: KeyHealthOptions) {
    const { upstream, now = () => performance.now(), tryEveryMs = TRY_EVERY_MS } = options;
    this.#options = options;
    this.#upstream = upstream;
    this.#now = now;
    this.#tryEveryMs = tryEveryMs;
    this.upstream = {
      createJob: (request, write) => this.#notedWrite('create', request.projectId, upstream.createJob(request, write)),
      sendMessage: (request, write) =>
        this.#notedWrite('message', request.projectId, upstream.sendMessage(request, write)),
      getJob: (request, read) => this.#notedRead('get', request.projectId, upstream.getJob(request, read)),
      getVisitors: (request, read) =>
        this.#notedRead('visitors', request.projectId, upstream.getVisitors(request, read)),
      keyVersion: (projectId) => upstream.keyVersion(projectId),
    };
  }

  /** The projects whose key is refused or missing. */
  get refusedProjects(): string[] {
    return [...this.#refusals.keys()];
  }

  /** Why a project's writes must wait for a key; null where they need not. */
  refusalOf(projectId: string): string | null {
    const refusal = this.#refusals.get(projectId);
    return refusal && !refusal.mayWrite ? refusal.reason : null;
  }

  /** The same, after another try where it is time for one. */
  async refusalNow(projectId: string, jobId: string | null): Promise<string | null> {
    const refusal = this.#refusals.get(projectId);
    if (refusal && !refusal.mayWrite) {
      const isNew = (await this.#version(projectId)) !== refusal.version;
      const isDue = isNew || this.#now() - refusal.triedAt >= this.#tryEveryMs;
      if (isDue && !refusal.isTrying) await this.#tryAgain({ projectId, jobId: jobId ?? NO_JOB }, refusal, isNew);
    }
    return this.refusalOf(projectId);
  }

  async #tryAgain(job: { projectId: string; jobId: string }, refusal: Refusal, isNewKey: boolean): Promise<void> {
    const { projectId } = job;
    const accepted = () => {
      if (isNewKey || !refusal.byWrite) this.#clear(projectId);
      else refusal.mayWrite = true;
    };
    refusal.isTrying = true;
    try {
      await this.#upstream.getJob(job);
      accepted();
    } catch (error) {
      const reason = await this.#refusalIn(projectId, error);
      // It may forbid this read alone: a write must show.
      if (isForbidden(error)) refusal.mayWrite = true;
      else if (reason !== null) await this.#refused('get', projectId, reason, refusal);
      else if (showsAccepted(error)) accepted();
    } finally {
      refusal.isTrying = false;
      refusal.triedAt = this.#now();
    }
  }

  async #notedWrite(operation: Operation, projectId: string, call: Promise<WriteOutcome>): Promise<WriteOutcome> {
    const outcome = await call;
    if (outcome.kind === 'unauthorized')
      await this.#refused(operation, projectId, outcome.reason, { byWrite: true, isForbidden: outcome.isForbidden });
    if (outcome.kind === 'accepted' || outcome.kind === 'rejected') this.#accepted(projectId, true);
    return outcome;
  }

  async #notedRead<T>(operation: Operation, projectId: string, call: Promise<T>): Promise<T> {
    try {
      const result = await call;
      this.#accepted(projectId, false);
      return result;
    } catch (error) {
      const refusal = await this.#refusalIn(projectId, error);
      const how = { byWrite: false, isForbidden: isForbidden(error) };
      if (refusal !== null) await this.#refused(operation, projectId, refusal, how);
      else if (showsAccepted(error)) this.#accepted(projectId, false);
      throw error;
    }
  }

  /** Why a read shows that the key is refused or missing; null where it does not. */
  async #refusalIn(projectId: string, error: unknown): Promise<string | null> {
    if (!(error instanceof ReadFailedError || error instanceof RejectedError)) return null;
    // A read that was not even answered may have had no key to go with.
    const isRefused =
      error.status === 401 ||
      isForbidden(error) ||
      (error.status === undefined && (await this.#version(projectId)) === null);
    return isRefused ? error.reason : null;
  }

  async #refused(
    operation: Operation,
    projectId: string,
    reason: string,
    { byWrite, isForbidden = false }: { byWrite: boolean; isForbidden?: boolean | undefined },
  ): Promise<void> {
    const version = await this.#version(projectId);
    const before = this.#refusals.get(projectId);
    this.#options.metrics.keyRefused(operation);
    // What is forbidden beside others that are accepted is forbidden by itself, such as a prompt that a firewall stops.
    if (isForbidden && this.#wasAccepted(projectId, byWrite)) return;
    // A key may be allowed to write and not to read: reads that are forbidden put no write off any further.
    if (isForbidden && !byWrite && before) return;
    // Another part of the upstream said so, which may be of another mind for ever: a read of a job tells, and is not
    // put off.
    const isHearsay = operation === 'visitors';
    if (isHearsay && before) return;
    const refusal = before ?? { isTrying: false, byWrite };
    this.#refusals.set(
      projectId,
      Object.assign(refusal, {
        reason,
        version,
        byWrite: byWrite || refusal.byWrite,
        triedAt: isHearsay ? -Infinity : this.#now(),
        mayWrite: false,
      }),
    );
    if (!before) this.#changed(projectId, reason);
  }

  /** Whether another call of this kind was accepted within the last minute. */
  #wasAccepted(projectId: string, isWrite: boolean): boolean {
    const at = this.#acceptedAt.get(`${isWrite} ${projectId}`);
    return at !== undefined && this.#now() - at < this.#tryEveryMs;
  }

  #accepted(projectId: string, isWrite: boolean): void {
    for (const [name, at] of this.#acceptedAt) {
      if (this.#now() - at < this.#tryEveryMs) break;
      this.#acceptedAt.delete(name);
    }
    this.#acceptedAt.delete(`${isWrite} ${projectId}`);
    this.#acceptedAt.set(`${isWrite} ${projectId}`, this.#now());
    const refusal = this.#refusals.get(projectId);
    if (!refusal) return;
    const sinceMs = this.#now() - refusal.triedAt;
    if (isWrite || !refusal.byWrite || sinceMs >= BELIEVE_READS_AFTER * this.#tryEveryMs) this.#clear(projectId);
    // Reads that go on beside refused writes don't let those knock any more often.
    else if (sinceMs >= this.#tryEveryMs) refusal.mayWrite = true;
  }

  #clear(projectId: string): void {
    if (this.#refusals.delete(projectId)) this.#changed(projectId, null);
  }

  #changed(projectId: string, reason: string | null): void {
    this.#options.onChange?.(projectId, reason);
  }

  /** Null if there is none, or if it can't be read. */
  async #version(projectId: string): Promise<string | null> {
    return this.#upstream.keyVersion(projectId).catch(() => null);
  }
}

/** A 403 to a read of a job; one to an export is a rejection, and tells nothing of jobs. */
function isForbidden(error: unknown): boolean {
  return error instanceof ReadFailedError && error.status === 403;
}

/** An answer that comes after the key was checked; a 429 or 5xx may come before, from a gateway. */
function showsAccepted(error: unknown): boolean {
  if (!(error instanceof RejectedError || error instanceof ReadFailedError)) return false;
  const { status } = error;
  return status !== undefined && status >= 400 && status < 500 && ![401, 403, 408, 429].includes(status);
}

interface AwaitKeyInput {
  projectId: string;
  /** Null before the create. */
  jobId: string | null;
}

/** A waiting write asks this often. Thousands of them ask one after the other, so many in a second. */
const ASK_EVERY_MS = 5_000;
const ASKS_PER_SECOND = 20;

/**
 * Makes the activity `awaitKey`: it returns once the key of a write that was refused is accepted. It sends no write and
 * knows no prompt, so it may be cancelled at any moment; its waits are kept by the server and cost no history.
 */
export function createAwaitKey(
  keys: Pick<KeyHealth, 'refusalNow'>,
  asksPerSecond = ASKS_PER_SECOND,
): (input: AwaitKeyInput) => Promise<void> {
  const spacingMs = 1_000 / Math.min(asksPerSecond, ASKS_PER_SECOND);
  let lastAt = 0;
  return async ({ projectId, jobId }) => {
    const refusal = await keys.refusalNow(projectId, jobId);
    if (refusal === null) return;
    const now = performance.now();
    lastAt = Math.max(lastAt + spacingMs, now + ASK_EVERY_MS);
    throw tryLater('StillWaiting', refusal, 'asks again', lastAt - now);
  };
}
