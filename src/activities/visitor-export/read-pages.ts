/** The pages of one chunk, read in order. The first failure or 429 ends the chunk: the workflow owns all waits. */
import type { VisitorExportRange } from '../../contract.js';
import type { Scan } from '../../exports/snapshots/scan.js';
import { ReadFailedError } from '../../upstream/errors.js';
import type { Upstream, VisitorRow } from '../../upstream/upstream.js';
import type { ChunkStop } from '../../exports/range-transitions.js';
import { PAGE_ROWS } from '../../exports/scan-checkpoint.js';

/** Ends an inconsistent scan that will be repeated. A shorter one is read whole, to see a mere change of order. */
const MAX_PAGES_BEFORE_REPEAT = 100;
/** Bounds a worker's memory: a chunk is held in memory, and paths may be long. */
const MAX_CHUNK_BYTES = 16 << 20;
const TOO_MANY_REQUESTS = 429;

/** When a chunk ends, though its scan goes on. */
interface ChunkLimits {
  requests: number;
  /** Whether an inconsistent scan will be repeated, so that the rest of a long one need not be read. */
  willRepeat: boolean;
  /** In milliseconds; checked between pages. */
  duration: number;
  /** Ends the chunk after the current page; the pages before are used. */
  stop: AbortSignal;
  /** Ends the chunk at once; rejects with the signal's reason. */
  cancel: AbortSignal;
}

/** What a chunk brought, and why it ended early. */
interface PagesRead {
  rows: VisitorRow[];
  /** What pages lacked, and what it was read as; each once. */
  readAs: Set<string>;
  interruption: ChunkStop | null;
}

/** Reads pages into the scan until its end or a limit; throws a RejectedError if the upstream rejects a request. */
export async function readPages(
  upstream: Pick<Upstream, 'getVisitors'>,
  range: VisitorExportRange,
  scan: Scan,
  limits: ChunkLimits,
): Promise<PagesRead> {
  const { stop, cancel, willRepeat } = limits;
  const signal = AbortSignal.any([stop, cancel]);
  const endsAt = performance.now() + limits.duration;
  const rows: VisitorRow[] = [];
  const readAs = new Set<string>();
  let [requests, bytes] = [0, 0];
  let interruption: ChunkStop | null = null;
  while (scan.state.stage !== 'ended' && !stop.aborted && interruption === null) {
    if (requests >= limits.requests || bytes >= MAX_CHUNK_BYTES || performance.now() >= endsAt) break;
    requests++;
    const request = { ...range, limit: PAGE_ROWS, offset: scan.offset };
    const result = await upstream.getVisitors(request, { signal }).catch((error: unknown) => ({ error }));
    cancel.throwIfAborted();
    if ('error' in result) {
      if (!stop.aborted) interruption = interruptionBy(result.error, scan);
      continue;
    }
    for (const one of result.readAs ?? []) readAs.add(one);
    // Rows are pushed one by one: a page of 8 MiB may have more rows than a call takes arguments.
    for (const row of scan.take(result)) {
      rows.push(row);
      bytes += Buffer.byteLength(row.path);
    }
    if (willRepeat && scan.state.inconsistency && scan.state.pages >= MAX_PAGES_BEFORE_REPEAT) scan.abort();
  }
  cancel.throwIfAborted();
  // A chunk that was stopped says nothing of the upstream.
  return { rows, readAs, interruption: stop.aborted ? null : interruption };
}

function interruptionBy(error: unknown, { offset, state }: Scan): ChunkStop {
  if (!(error instanceof ReadFailedError)) throw error;
  const kind = error.status === TOO_MANY_REQUESTS ? 'busy' : 'failed';
  const { message, retryAfterMs = null } = error;
  return { kind, reason: `page ${state.pages + 1}, at offset ${offset}: ${message}`, retryAfterMs };
}
