/**
 * The pages of one chunk, read in order, the next page requested ahead. Owns the retries that take seconds; a chunk
 * that a failure or a 429 interrupts goes back to the workflow, whose waits hold no worker slot.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { VisitorExportRange } from '../../contract.js';
import type { ChunkEncoder } from '../../snapshots/staging.js';
import type { Scan } from '../../snapshots/scan.js';
import { ReadFailedError, RejectedError } from '../../upstream/errors.js';
import type { Upstream, VisitorPage } from '../../upstream/upstream.js';
import { PAGE_ROWS } from '../../visitor-export/scan-checkpoint.js';

/** Waits before a failed page is requested again; after the last one the workflow decides. */
const RETRY_WAITS_MS = [250, 1_000, 2_000];
/**
 * An inconsistent scan that will be repeated ends here. Shorter ones are read whole, to tell a mere change of order.
 */
const MAX_PAGES_BEFORE_REPEAT = 100;
/** Bounds a worker's memory: a chunk is held in memory, and paths may be long. */
const MAX_CHUNK_BYTES = 16 << 20;
const TOO_MANY_REQUESTS = 429;

/** Why a chunk ended early: `busy` is a 429. */
export interface Interruption {
  kind: 'busy' | 'failed';
  reason: string;
  retryAfterMs: number | null;
}

/** When a chunk ends, though its scan goes on. */
interface ChunkLimits {
  requests: number;
  /** Whether an inconsistent scan will be repeated, so that the rest of a long one need not be read. */
  willRepeat: boolean;
  /** Whether a failed page is retried within seconds; useless where the upstream has failed for longer. */
  retriesPages: boolean;
  /** In milliseconds; checked between pages. */
  duration: number;
  /** Ends the chunk after the current page; the pages before are used. */
  stop: AbortSignal;
  /** Ends the chunk at once; rejects with the signal's reason. */
  cancel: AbortSignal;
}

/** How a chunk ended. */
export interface ChunkEnd {
  interruption: Interruption | null;
  /** Set where the upstream refuses the request, and would refuse it again. */
  rejection: RejectedError | null;
}

type PageResult = { page: VisitorPage } | { error: unknown };

/**
 * Reads pages into the scan, and their rows into `rows`, until the scan ends, a limit is met or the upstream refuses.
 */
export async function readPages(
  upstream: Pick<Upstream, 'getVisitors'>,
  range: VisitorExportRange,
  { scan, rows }: { scan: Scan; rows: ChunkEncoder },
  limits: ChunkLimits,
): Promise<ChunkEnd> {
  const reader = new PageReader(upstream, range, limits, () => rows.bytes >= MAX_CHUNK_BYTES);
  while (scan.stage !== 'ended' && !limits.stop.aborted && reader.mayRead()) {
    const result = await reader.read(scan.offset).catch(toRejection);
    limits.cancel.throwIfAborted();
    if ('rejection' in result) return { interruption: null, rejection: result.rejection };
    if ('interruption' in result) return { interruption: result.interruption, rejection: null };
    if (scan.stage === 'paging') reader.readAhead(result.page, scan);
    scan.take(result.page, rows);
    if (limits.willRepeat && scan.inconsistency && scan.pages >= MAX_PAGES_BEFORE_REPEAT) scan.abort();
  }
  return { interruption: null, rejection: null };
}

class PageReader {
  #requests = 0;
  readonly #startedAt = performance.now();
  readonly #upstream: Pick<Upstream, 'getVisitors'>;
  readonly #range: VisitorExportRange;
  readonly #limits: ChunkLimits;
  readonly #isFull: () => boolean;
  readonly #signal: AbortSignal;
  #ahead: { offset: number; result: Promise<PageResult> } | null = null;

  constructor(
    upstream: Pick<Upstream, 'getVisitors'>,
    range: VisitorExportRange,
    limits: ChunkLimits,
    isFull: () => boolean,
  ) {
    this.#upstream = upstream;
    this.#range = range;
    this.#limits = limits;
    this.#isFull = isFull;
    this.#signal = AbortSignal.any([limits.stop, limits.cancel]);
  }

  /** Whether another page fits into the chunk, or was requested already. */
  mayRead(): boolean {
    return this.#ahead !== null || this.#mayRequest();
  }

  #mayRequest(): boolean {
    if (this.#isFull()) return false;
    return this.#requests < this.#limits.requests && performance.now() - this.#startedAt < this.#limits.duration;
  }

  /** Reads the page at an offset; the interruption is null where the chunk was told to stop. */
  async read(offset: number): Promise<{ page: VisitorPage } | { interruption: Interruption | null }> {
    for (let retries = 0; ; retries++) {
      const ahead = this.#ahead;
      this.#ahead = null;
      const result = await (ahead?.offset === offset ? ahead.result : this.#request(offset));
      if ('page' in result) return result;
      if (this.#signal.aborted) return { interruption: null };
      const interruption = interruptionBy(result.error);
      const waitMs = RETRY_WAITS_MS[retries];
      if (waitMs === undefined || !this.#mayRetry(interruption)) return { interruption };
      await delay(waitMs, undefined, { signal: this.#signal }).catch(() => {});
      if (this.#signal.aborted) return { interruption: null };
    }
  }

  #mayRetry({ kind, retryAfterMs }: Interruption): boolean {
    return this.#limits.retriesPages && kind === 'failed' && retryAfterMs === null && this.#mayRequest();
  }

  /** Requests the page that surely follows, while this one is processed. */
  readAhead(page: VisitorPage, scan: Scan): void {
    const next = scan.offset + page.visitors.length - 1;
    if (!page.hasMore || next <= scan.offset || !this.#mayRequest()) return;
    this.#ahead = { offset: next, result: this.#request(next) };
  }

  #request(offset: number): Promise<PageResult> {
    this.#requests++;
    const request = { ...this.#range, limit: PAGE_ROWS, offset };
    return this.#upstream.getVisitors(request, { signal: this.#signal }).then(
      (page) => ({ page }),
      (error: unknown) => ({ error }),
    );
  }
}

function toRejection(error: unknown): { rejection: RejectedError } {
  if (error instanceof RejectedError) return { rejection: error };
  throw error;
}

function interruptionBy(error: unknown): Interruption {
  if (error instanceof ReadFailedError) {
    const kind = error.status === TOO_MANY_REQUESTS ? 'busy' : 'failed';
    return { kind, reason: error.message, retryAfterMs: error.retryAfterMs ?? null };
  }
  // Redirects are never followed; a redirect may be temporary.
  if (error instanceof RejectedError && error.status < 400) {
    return { kind: 'failed', reason: error.message, retryAfterMs: null };
  }
  throw error;
}
