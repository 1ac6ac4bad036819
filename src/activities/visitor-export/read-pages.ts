/** The pages of one chunk: read in order, each failed one asked for again at once a few times, the next one under way meanwhile. */
import { setTimeout as delay } from 'node:timers/promises';
import type { VisitorExportRange } from '../../contract.js';
import type { Scan } from '../../snapshots/scan.js';
import type { ChunkEncoder } from '../../snapshots/chunk-encoder.js';
import { ReadFailedError, RejectedError } from '../../upstream/errors.js';
import type { Upstream, VisitorPage } from '../../upstream/upstream.js';

const PAGE_ROWS = 250; // the most that the upstream gives
/** A failed page is asked for again after these waits; then the workflow waits, which costs no worker slot. */
const QUICK_WAITS_MS = [250, 1_000, 2_000];
/** An inconsistent scan that will be repeated goes on for so many pages: only whole scans can show that the order alone moved. */
const MAX_PAGES_BEFORE_REPEAT = 100;
/** A chunk is held in memory; paths may be long. */
const MOST_BYTES = 16 << 20;
const BUSY_STATUS = 429;

/** Why a chunk ended early: `busy` is a 429. */
export interface Obstacle {
  kind: 'busy' | 'failed';
  reason: string;
  retryAfterMs: number | null;
}

export interface ChunkLimits {
  requests: number;
  /** Whether an inconsistent scan will be repeated, so that the rest of a long one need not be read. */
  willRepeat: boolean;
  /** Whether a failed page is asked for again at once; pointless where the upstream has been failing. */
  isQuickToRetry: boolean;
  /** In milliseconds; looked at between pages. */
  duration: number;
  /** Ends the chunk after the page at hand; what was read is kept. */
  stop: AbortSignal;
  /** Ends the chunk at once; rejects with the signal's reason. */
  cancel: AbortSignal;
}

export interface ChunkEnd {
  /** Requests made, failed ones included. */
  requests: number;
  obstacle: Obstacle | null;
  /** The upstream refuses, and would refuse again. */
  rejection: RejectedError | null;
}

type Answer = { page: VisitorPage } | { error: unknown };

/** Reads pages into the scan, and its rows into `kept`, until it ends or a limit is met, or the upstream refuses. */
export async function readPages(
  upstream: Pick<Upstream, 'getVisitors'>,
  range: VisitorExportRange,
  { scan, kept }: { scan: Scan; kept: ChunkEncoder },
  limits: ChunkLimits,
): Promise<ChunkEnd> {
  const reader = new PageReader(upstream, range, limits, () => kept.bytes >= MOST_BYTES);
  let obstacle: Obstacle | null = null;
  while (scan.stage !== 'ended' && !limits.stop.aborted && reader.mayRead()) {
    const answer = await reader.read(scan.offset).catch(toRejection);
    limits.cancel.throwIfAborted();
    if ('rejection' in answer) return { requests: reader.requests, obstacle, rejection: answer.rejection };
    if ('obstacle' in answer) {
      obstacle = answer.obstacle;
      break;
    }
    if (scan.stage === 'paging') reader.readAhead(answer.page, scan);
    scan.take(answer.page, kept);
    if (limits.willRepeat && scan.inconsistency && scan.pages >= MAX_PAGES_BEFORE_REPEAT) scan.abort();
  }
  return { requests: reader.requests, obstacle, rejection: null };
}

class PageReader {
  requests = 0;
  readonly #startedAt = performance.now();
  readonly #upstream: Pick<Upstream, 'getVisitors'>;
  readonly #range: VisitorExportRange;
  readonly #limits: ChunkLimits;
  readonly #isFull: () => boolean;
  readonly #signal: AbortSignal;
  #ahead: { offset: number; answer: Promise<Answer> } | null = null;

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

  /** Whether another page fits into the chunk, or was asked for already. */
  mayRead(): boolean {
    return this.#ahead !== null || this.#mayAsk();
  }

  #mayAsk(): boolean {
    if (this.#isFull()) return false;
    return this.requests < this.#limits.requests && performance.now() - this.#startedAt < this.#limits.duration;
  }

  /** Reads the page at an offset; null as obstacle where the chunk was told to stop. */
  async read(offset: number): Promise<{ page: VisitorPage } | { obstacle: Obstacle | null }> {
    for (let tries = 0; ; tries++) {
      const ahead = this.#ahead;
      this.#ahead = null;
      const answer = await (ahead?.offset === offset ? ahead.answer : this.#ask(offset));
      if ('page' in answer) return answer;
      if (this.#signal.aborted) return { obstacle: null };
      const obstacle = obstacleOf(answer.error);
      const waitMs = QUICK_WAITS_MS[tries];
      const isRetried = this.#limits.isQuickToRetry && obstacle.kind === 'failed' && obstacle.retryAfterMs === null;
      if (!isRetried || waitMs === undefined || !this.#mayAsk()) return { obstacle };
      await delay(waitMs, undefined, { signal: this.#signal }).catch(() => {});
      if (this.#signal.aborted) return { obstacle: null };
    }
  }

  /** Asks for the page that surely follows, while this one is being worked on. */
  readAhead(page: VisitorPage, scan: Scan): void {
    const next = scan.offset + page.visitors.length - 1;
    if (!page.hasMore || next <= scan.offset || !this.#mayAsk()) return;
    this.#ahead = { offset: next, answer: this.#ask(next) };
  }

  #ask(offset: number): Promise<Answer> {
    this.requests++;
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

function obstacleOf(error: unknown): Obstacle {
  if (error instanceof ReadFailedError) {
    const kind = error.status === BUSY_STATUS ? 'busy' : 'failed';
    return { kind, reason: error.message, retryAfterMs: error.retryAfterMs ?? null };
  }
  // A redirect is never followed; whoever put it there may take it away again.
  if (error instanceof RejectedError && error.status < 400) {
    return { kind: 'failed', reason: error.message, retryAfterMs: null };
  }
  throw error;
}
