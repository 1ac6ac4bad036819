/**
 * Decides whether a project's writes wait for a key. A key that is refused (401, 403) or missing holds them until it
 * changes or a minute is over: then one read tries it, however many writes wait. Ten minutes of accepted reads clear
 * the key.
 */
import { tryLater } from '../../temporal/activity-attempt.js';
import type { Metrics } from '../metrics.js';
import { ReadFailedError, RejectedError, UpstreamError } from '../../upstream/errors.js';
import type { WriteOutcome } from '../../contract/write-outcome.js';
import type { Upstream } from '../../upstream/upstream.js';

interface Refusal {
  reason: string;
  /** The key that was refused or tried last; null if there was none. */
  version: string | null;
  /** When the key was refused to a write, was tried, or became refused: the last of them. */
  at: number;
  /** False once a read has shown that a write may try: only a write shows whether writes are accepted. */
  holdsWrites: boolean;
}

/** What the health of keys is made of. */
export interface KeyHealthOptions {
  upstream: Upstream;
  metrics: Pick<Metrics, 'keyRefused'>;
  /** Called once for each change of a project: why its key is refused, null when it is accepted. */
  onChange?: (projectId: string, reason: string | null) => void;
  /** In milliseconds. */
  now?: () => number;
  tryEveryMs?: number;
}

const TRY_EVERY_MS = 60_000;
/** So many times `TRY_EVERY_MS` of accepted reads clear a key, if no write was refused since. */
const BELIEVE_READS_AFTER = 10;
/** A worker that serves every project keeps little. */
const MAX_REMEMBERED = 10_000;
/** No job has this id: an answer that there is none shows that the key was accepted. */
const NO_JOB = 'agent-jobs-key-check';

/** What the answers to the jobs' requests of this worker show of keys. */
export class KeyHealth {
  /** The upstream; each answer is noted. An export's answer is counted alone: another part of the upstream gives it. */
  readonly notedUpstream: Upstream;
  readonly #options: Required<KeyHealthOptions>;
  readonly #refusals = new Map<string, Refusal>();
  /** When a write of a project was last accepted. */
  readonly #writtenAt = new Map<string, number>();

  constructor(options: KeyHealthOptions) {
    this.#options = { onChange: () => {}, now: () => performance.now(), tryEveryMs: TRY_EVERY_MS, ...options };
    const { upstream } = options;
    this.notedUpstream = {
      createJob: (request, write) => this.#write('create', request.projectId, upstream.createJob(request, write)),
      sendMessage: (request, write) => this.#write('message', request.projectId, upstream.sendMessage(request, write)),
      getJob: (request, read) => this.#read(request.projectId, upstream.getJob(request, read)),
      getVisitors: async (request, read) => {
        try {
          return await upstream.getVisitors(request, read);
        } catch (error) {
          await this.#countRefusal('visitors', request.projectId, error);
          throw error;
        }
      },
      keyVersion: (projectId) => upstream.keyVersion(projectId),
    };
  }

  /** The projects whose key is refused or missing. */
  get refusedProjects(): string[] {
    return [...this.#refusals.keys()];
  }

  /** Why a project's writes must wait for a key; null if they need not. */
  refusalOf(projectId: string): string | null {
    const refusal = this.#refusals.get(projectId);
    return refusal?.holdsWrites ? refusal.reason : null;
  }

  /** The same, after a try if it is time for one. */
  async refusalNow(projectId: string, jobId: string | null): Promise<string | null> {
    const refusal = this.#refusals.get(projectId);
    if (!refusal?.holdsWrites) return null;
    const version = await this.#version(projectId);
    const isNewKey = version !== refusal.version;
    if (isNewKey || this.#since(refusal.at) >= this.#options.tryEveryMs) {
      // In one step: of those that ask now, this one tries.
      Object.assign(refusal, { version, at: this.#options.now() });
      const isAccepted = await this.#isAccepted({ projectId, jobId: jobId ?? NO_JOB });
      if (isAccepted && isNewKey) this.#clear(projectId);
      else if (isAccepted) refusal.holdsWrites = false;
    }
    return this.refusalOf(projectId);
  }

  /** A 403 may forbid this read alone, so a write may try. */
  async #isAccepted(job: { projectId: string; jobId: string }): Promise<boolean> {
    return this.notedUpstream.getJob(job).then(
      () => true,
      (error: unknown) => statusOf(error) === 403 || showsAccepted(error),
    );
  }

  async #write(operation: string, projectId: string, call: Promise<WriteOutcome>): Promise<WriteOutcome> {
    const outcome = await call;
    if (outcome.kind === 'accepted' || outcome.kind === 'rejected') {
      if (this.#writtenAt.size >= MAX_REMEMBERED) this.#writtenAt.clear();
      this.#writtenAt.set(projectId, this.#options.now());
      this.#clear(projectId);
    }
    if (outcome.kind === 'unauthorized') {
      this.#options.metrics.keyRefused(operation);
      // A 403 within a minute of an accepted write forbids this write alone: a firewall may stop a prompt.
      const wasJustWritten = this.#since(this.#writtenAt.get(projectId) ?? -Infinity) < this.#options.tryEveryMs;
      if (!outcome.isForbidden || !wasJustWritten) await this.#refused(projectId, outcome.reason);
    }
    return outcome;
  }

  async #read<T>(projectId: string, call: Promise<T>): Promise<T> {
    try {
      const result = await call;
      await this.#readAccepted(projectId);
      return result;
    } catch (error) {
      if (showsAccepted(error)) await this.#readAccepted(projectId);
      const reason = await this.#countRefusal('get', projectId, error);
      // A key may be allowed to write and not to read.
      if (reason === null || statusOf(error) === 403) throw error;
      const known = this.#refusals.get(projectId);
      // Reads that are refused again and again put no try off, and hold no write that a try let go.
      if (known) known.reason = reason;
      else await this.#refused(projectId, reason);
      throw error;
    }
  }

  /** Clears another key at once, and the refused one in time. */
  async #readAccepted(projectId: string): Promise<void> {
    const refusal = this.#refusals.get(projectId);
    if (!refusal) return;
    const isLongAgo = this.#since(refusal.at) >= BELIEVE_READS_AFTER * this.#options.tryEveryMs;
    if (isLongAgo || (await this.#version(projectId)) !== refusal.version) this.#clear(projectId);
  }

  /** Why a read shows that the key is refused or missing; null if it does not. */
  async #countRefusal(operation: string, projectId: string, error: unknown): Promise<string | null> {
    if (!(error instanceof UpstreamError)) return null;
    const status = statusOf(error);
    // A read that was not even answered may have had no key to go with.
    const isRefused = status === undefined ? (await this.#version(projectId)) === null : [401, 403].includes(status);
    if (isRefused) this.#options.metrics.keyRefused(operation);
    return isRefused ? error.reason : null;
  }

  async #refused(projectId: string, reason: string): Promise<void> {
    const refusal = { reason, version: await this.#version(projectId), at: this.#options.now(), holdsWrites: true };
    const before = this.#refusals.get(projectId);
    // The same object: a try under way may still change it.
    this.#refusals.set(projectId, Object.assign(before ?? refusal, refusal));
    if (!before) this.#options.onChange(projectId, reason);
  }

  #clear(projectId: string): void {
    if (this.#refusals.delete(projectId)) this.#options.onChange(projectId, null);
  }

  #since(time: number): number {
    return this.#options.now() - time;
  }

  /** Null if there is no key, or it cannot be read. */
  async #version(projectId: string): Promise<string | null> {
    return this.#options.upstream.keyVersion(projectId).catch(() => null);
  }
}

function statusOf(error: unknown): number | undefined {
  return error instanceof RejectedError || error instanceof ReadFailedError ? error.status : undefined;
}

/** An answer that comes after the key was checked; a 429 or 5xx may come before, from a gateway. */
function showsAccepted(error: unknown): boolean {
  const status = statusOf(error);
  return status !== undefined && status >= 400 && status < 500 && ![401, 403, 408, 429].includes(status);
}

interface AwaitKeyInput {
  projectId: string;
  /** Null before the create. */
  jobId: string | null;
}

/** Each job that waits asks this often, but of thousands not all at once: so many in a second. */
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
