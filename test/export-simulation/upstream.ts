import { createHash } from 'node:crypto';
import type { SnapshotManifest, VisitorExportRange, VisitorTotals } from '../../src/contract.js';
import { SandboxClock } from '../../src/sandbox/clock.js';
import { RateLimiter } from '../../src/sandbox/access.js';
import type { VisitorSettings } from '../../src/sandbox/visitor-rows.js';
import { Visitors } from '../../src/sandbox/visitors.js';
import { ReadFailedError } from '../../src/upstream/errors.js';
import { readVisitorPage } from '../../src/upstream/schema.js';
import type { Upstream, VisitorPage } from '../../src/upstream/upstream.js';

/** A moment of simulated time, in milliseconds since 1970. */
export interface SimulatedTime {
  now: number;
}

type Page = Parameters<Upstream['getVisitors']>[0];

export const REQUESTS_PER_HOUR = 100;

/** The sandbox's visitors on simulated time: what a reader over HTTP would get, without the wire. */
export class SimulatedUpstream {
  readonly visitors: Visitors;
  readonly #time: SimulatedTime;
  readonly #limiter = new RateLimiter({ visitors: REQUESTS_PER_HOUR });

  constructor(time: SimulatedTime) {
    this.#time = time;
    this.visitors = new Visitors(new SandboxClock(() => time.now), {});
  }

  set(projectId: string, settings: VisitorSettings): void {
    this.visitors.set(settings, projectId);
  }

  /** Other requests that count. */
  useUp(requests: number): void {
    for (let i = 0; i < requests; i++) this.#limiter.refuse('visitors', '', this.#time.now);
  }

  /** One page; throws a ReadFailedError with 429 beyond the limit that all share. */
  page({ projectId, dateFrom, dateTo, limit, offset }: Page): VisitorPage {
    if (this.#limiter.refuse('visitors', projectId, this.#time.now)) throw new ReadFailedError('answered 429', 429);
    return this.#unlimited({ projectId, dateFrom, dateTo, limit, offset });
  }

  /** All rows as a pager reads them that asks for the next 250 while there are more. */
  plainly(range: VisitorExportRange): VisitorPage {
    const rows: VisitorPage['visitors'] = [];
    for (let offset = 0; ; offset += 250) {
      const { totals, visitors, hasMore } = this.#unlimited({ ...range, limit: 250, offset });
      rows.push(...visitors);
      if (!hasMore) return { totals, visitors: rows, hasMore };
    }
  }

  /** Whether rows and totals are the day's own, once all of it has arrived. */
  isTruth({ projectId, dateFrom, dateTo }: VisitorExportRange, rows: VisitorPage['visitors'], totals: VisitorTotals) {
    const truth = this.visitors.expectedSnapshot(projectId, dateFrom, dateTo);
    return truth.digest === digestOf(rows) && JSON.stringify(truth.totals) === JSON.stringify(totals);
  }

  hasSettled({ projectId, dateFrom, dateTo }: Pick<SnapshotManifest, 'projectId' | 'dateFrom' | 'dateTo'>): boolean {
    return this.visitors.expectedSnapshot(projectId, dateFrom, dateTo).settled;
  }

  #unlimited({ projectId, dateFrom, dateTo, limit, offset }: Page): VisitorPage {
    const query = new URLSearchParams({ dateFrom, dateTo, limit: String(limit), offset: String(offset) });
    const { status, body } = this.visitors.page(projectId, query);
    if (status !== 200) throw new Error(`The upstream answered ${status}: ${body}`);
    return readVisitorPage(Buffer.from(body));
  }
}

function digestOf(rows: VisitorPage['visitors']): string {
  const lines = rows.map(({ path, human, ai, total }) => `${[path, human, ai, total].join('\t')}\n`).toSorted();
  const hash = createHash('sha256');
  for (const line of lines) hash.update(line);
  return hash.digest('hex');
}
