/** The export of one date range by its one writer: scans until one is consistent, at most three, then the publication. */
import {
  CancellationScope,
  ContinueAsNew,
  setCurrentDetails,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import { ApplicationFailure } from '@temporalio/common';
import type { ReadChunkResult } from '../../activities/visitor-export/visitor-export.js';
import {
  exportTaskQueue,
  FAILURE,
  visitorExportProgressQuery,
  type InconsistencyKind,
  type SnapshotReceipt,
  type VisitorExportProgress,
  type VisitorExportRange,
} from '../../contract.js';
import { isProvisional } from '../../visitor-export/date-range.js';
import { inconsistencyOf, NEW_SCAN, SECOND_LOOK_MS } from '../../visitor-export/scan-checkpoint.js';
import { notTakenWaitMs } from '../../agent-job/poll-plan.js';
import { rangeDetails } from './details.js';
import { exportActivities, lastActivities, MOST_ATTEMPTS } from './activities.js';
import { failureOf } from './failure.js';
import { patiently, storeFailure } from './patience.js';
import { newRangeState, type RangeState } from './range-run.js';

export interface RangeResult {
  receipt: SnapshotReceipt;
  /** When the pace allows the next request of whoever goes on from here. */
  notBefore: number;
}

const MAX_STALE_STAGINGS = 3;
/** What a finished day is read once more for. */
const DOUBTS: Partial<Record<InconsistencyKind, string>> = {
  impossible: 'rows and totals contradict each other; the day is read once more',
  shrunk: 'most of the rows are gone; the day is read once more',
};
/** A paced chunk is five minutes' worth of requests; attempts that end with their worker may have made them all. */
const UNKNOWN_PACE_MS = MOST_ATTEMPTS * 5 * 60_000;
const UPSTREAM_PATIENCE_MS = 24 * 3_600_000;
/** Continue-as-new well before the server's limit of 51,200 events, so that a replay stays short. */
const MOST_EVENTS = 5_000;

/** Exports one date range; `carried` is what the run before continue-as-new handed on, `goOn` starts the next one. */
export async function exportRange(
  range: VisitorExportRange,
  carried: RangeState | null,
  goOn: (data: RangeState) => Promise<never>,
): Promise<RangeResult> {
  const writer = new RangeWriter(range, carried);
  setHandler(visitorExportProgressQuery, () => writer.progress());
  try {
    return await writer.run(goOn);
  } catch (error) {
    if (!(error instanceof ContinueAsNew)) await writer.cleanUp();
    throw failureOf(error) ?? error;
  }
}

class RangeWriter {
  readonly #range: VisitorExportRange;
  readonly #isNew: boolean;
  readonly #data: RangeState;
  readonly #activities = exportActivities();

  constructor(range: VisitorExportRange, carried: RangeState | null) {
    this.#range = range;
    this.#isNew = carried === null;
    this.#data = carried ?? newRangeState(workflowInfo().firstExecutionRunId);
  }

  async run(goOn: (data: RangeState) => Promise<never>): Promise<RangeResult> {
    const data = this.#data;
    if (this.#isNew) {
      // Without one the first activity waits for ever, and nothing else would say so.
      data.trouble = `no worker of the exports has begun yet (task queue ${exportTaskQueue(workflowInfo().taskQueue)})`;
      this.#show();
      const { expectedRows } = await this.#patiently(() => this.#activities.prepareExport({ range: this.#range }));
      data.expectedRows = expectedRows;
      data.trouble = null;
    }
    for (;;) {
      await this.#waitTurn();
      const result = await this.#readChunk();
      if (result) this.#learn(result);
      this.#show();
      if (data.checkpoint.stage === 'ended' && !this.#repeat()) {
        const receipt = await this.#publish();
        if (receipt && !this.#lookAgain(receipt)) return { receipt, notBefore: data.notBefore };
      }
      const { continueAsNewSuggested, historyLength } = workflowInfo();
      if (continueAsNewSuggested || historyLength > MOST_EVENTS) await goOn(data);
    }
  }

  progress(): VisitorExportProgress {
    const { scan, checkpoint, expectedRows, trouble, notBefore } = this.#data;
    const { dateFrom, dateTo } = this.#range;
    const nextRequestAt = notBefore > Date.now() ? new Date(notBefore).toISOString() : null;
    const { pages, rows } = checkpoint;
    return { dateFrom, dateTo, scan, pages, rows, expectedRows, trouble, nextRequestAt };
  }

  /** Best effort: what is left is swept by the date range's next run. */
  async cleanUp(): Promise<void> {
    await CancellationScope.nonCancellable(() => lastActivities().cleanUpExport({ range: this.#range })).catch(
      () => {},
    );
  }

  /** The next chunk; null where the scan had to begin anew. */
  async #readChunk(): Promise<ReadChunkResult | null> {
    const { run, scan, checkpoint, repeatsLeft, failures } = this.#data;
    const situation = { willRepeat: repeatsLeft > 0, isUpstreamFailing: failures > 0 };
    const input = { range: this.#range, run, scan, checkpoint, ...situation };
    return this.#orAnew(() => this.#patiently((probeStore) => this.#activities.readChunk({ ...input, probeStore })));
  }

  /** Publishes the scan; null where it had to begin anew. */
  async #publish(): Promise<SnapshotReceipt | null> {
    const { run, scan, checkpoint, before, scanStartedAt, doubt } = this.#data;
    const finished = {
      range: this.#range,
      run,
      scan,
      checkpoint,
      inconsistency: inconsistencyOf(checkpoint, before),
      doubt: doubt ?? null,
    };
    const exportedAt = new Date(scanStartedAt).toISOString();
    return this.#orAnew(() => this.#patiently(() => this.#activities.publishSnapshot({ ...finished, exportedAt })));
  }

  #patiently<T>(work: (probe: boolean) => Promise<T>): Promise<T> {
    const data = this.#data;
    const tell = (trouble: string) => {
      data.trouble = trouble;
      this.#show();
    };
    return patiently(work, { tell, unknownPaceMs: data.requestsPerHour === null ? 0 : UNKNOWN_PACE_MS });
  }

  /** Begins the scan anew where its staged rows are lost or not the ones that were read. */
  async #orAnew<T>(work: () => Promise<T>): Promise<T | null> {
    try {
      return await work();
    } catch (error) {
      const failure = failureOf(error);
      if (failure?.type !== 'StaleStaging') throw error;
      if (++this.#data.staleStagings > MAX_STALE_STAGINGS) {
        throw storeFailure(failure.message, { operation: 'read', error: failure.message });
      }
      this.#beginScan();
      return null;
    }
  }

  #learn({ checkpoint, pages, obstacle, paceMs, requestsPerHour }: ReadChunkResult): void {
    const data = this.#data;
    const now = Date.now();
    data.checkpoint = checkpoint;
    data.requestsPerHour = requestsPerHour;
    data.notBefore = now + paceMs;
    data.trouble = obstacle?.reason ?? null;
    if (pages > 0 || !obstacle) {
      data.failures = 0;
      data.failingSince = null;
    }
    if (!obstacle) return;
    data.failures += 1;
    data.failingSince ??= now;
    data.notBefore = Math.max(data.notBefore, now + obstacleWaitMs(data.failures, obstacle));
    if (now - data.failingSince >= UPSTREAM_PATIENCE_MS) {
      const message = `The upstream gave no page for 24 hours: ${obstacle.reason}`;
      const details = [{ error: obstacle.reason, nextRequestAt: new Date(data.notBefore).toISOString() }];
      throw ApplicationFailure.create({ type: FAILURE.upstreamUnavailable, message, nonRetryable: true, details });
    }
  }

  /** An inconsistent scan is repeated while the night allows it. */
  #repeat(): boolean {
    const data = this.#data;
    if (!data.checkpoint.inconsistency || data.repeatsLeft === 0) return false;
    data.repeatsLeft -= 1;
    const before = data.checkpoint;
    this.#beginScan();
    data.before = before;
    return true;
  }

  /** A finished day that says what can't be, or lost most of its rows, is read once more an hour later. */
  #lookAgain({ drift, dateTo }: SnapshotReceipt): boolean {
    const data = this.#data;
    const { scanStartedAt, checkpoint } = data;
    const words = drift && DOUBTS[drift.kind];
    if (data.doubt || words === undefined || isProvisional(scanStartedAt, dateTo)) return false;
    data.doubt = { rows: checkpoint.rows, exportedAt: new Date(scanStartedAt).toISOString() };
    data.trouble = words;
    data.notBefore = Math.max(data.notBefore, Date.now() + SECOND_LOOK_MS);
    this.#beginScan();
    data.before = null;
    return true;
  }

  #beginScan(): void {
    const data = this.#data;
    data.scan += 1;
    data.scanStartedAt = Math.max(Date.now(), data.notBefore);
    data.checkpoint = NEW_SCAN;
  }

  async #waitTurn(): Promise<void> {
    const waitMs = this.#data.notBefore - Date.now();
    if (waitMs <= 0) return;
    this.#show();
    await sleep(waitMs);
  }

  #show(): void {
    setCurrentDetails(rangeDetails(this.#range, this.#data, Date.now()));
  }
}

function obstacleWaitMs(failures: number, { kind, retryAfterMs }: NonNullable<ReadChunkResult['obstacle']>): number {
  const asked = retryAfterMs === null ? 0 : throttledWaitMs(failures, retryAfterMs);
  const ownMs = throttledWaitMs(failures, undefined);
  return kind === 'busy' && retryAfterMs !== null ? asked : Math.max(asked, ownMs);
}
