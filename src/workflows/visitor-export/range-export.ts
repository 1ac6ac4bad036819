/**
 * The export of one date range by its one writer: scans until one is consistent, at most three, then the publication.
 */
import {
  CancellationScope,
  ContinueAsNew,
  log,
  setCurrentDetails,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { ReadChunkResult } from '../../activities/visitor-export/export-activities.js';
import {
  exportTaskQueue,
  FAILURE,
  visitorExportProgressQuery,
  type Priority,
  type SnapshotReceipt,
  type VisitorExportRange,
  type VisitorExportResult,
} from '../../contract.js';
import { DAY_MS } from '../../contract/shared.js';
import { isProvisional } from '../../visitor-export/date-range.js';
import { NEW_SCAN, SECOND_SCAN_DELAY_MS, inconsistencyOf, suspicionOf } from '../../visitor-export/scan-checkpoint.js';
import { isNewRunWanted } from '../worker-version.js';
import {
  cleanUpActivities,
  exportActivities,
  exportFailure,
  ExportTurns,
  failureOf,
  interruptionWaitMs,
  withRetries,
} from './activities.js';
import { markDoubt, newRangeState, rangeDetails, rangeProgress, type RangeState } from './range-state.js';

/** How a date range is exported. */
export interface RangeOptions {
  /** Whether a suspect final day is scanned a second time. */
  secondScan: boolean;
  priority: Priority;
  /** What the run before continue-as-new passed on. */
  carried: RangeState | null;
  /** Continues as new. */
  next: (state: RangeState) => Promise<never>;
}

const MAX_STALE_STAGINGS = 3;
const MAX_UPSTREAM_OUTAGE_MS = DAY_MS;

/** Exports one date range as its one writer. */
export async function exportRange(range: VisitorExportRange, options: RangeOptions): Promise<VisitorExportResult> {
  const writer = new RangeWriter(range, options);
  try {
    return await writer.export();
  } catch (error) {
    if (!(error instanceof ContinueAsNew)) await writer.cleanUp();
    throw failureOf(error) ?? error;
  }
}

class RangeWriter {
  readonly #range: VisitorExportRange;
  readonly #options: RangeOptions;
  readonly #state: RangeState;
  readonly #turns: ExportTurns;
  readonly #activities = exportActivities();

  constructor(range: VisitorExportRange, options: RangeOptions) {
    this.#range = range;
    this.#options = options;
    this.#state = options.carried ?? newRangeState(workflowInfo().firstExecutionRunId);
    this.#turns = new ExportTurns(this.#state, options.priority, () => this.#show());
    setHandler(visitorExportProgressQuery, () => rangeProgress(range, this.#state, Date.now()));
  }

  async export(): Promise<VisitorExportResult> {
    const state = this.#state;
    if (!this.#options.carried) await this.#prepare();
    for (;;) {
      const waitMs = state.notBefore - Date.now();
      if (waitMs > 0) {
        this.#show();
        await sleep(waitMs);
      }
      const result = await this.#readChunk();
      if (result) this.#apply(result);
      this.#show();
      if (state.checkpoint.stage === 'ended' && !this.#repeatScan()) {
        const receipt = await this.#publish();
        if (receipt) markDoubt(receipt);
        if (receipt && !this.#scanAgainLater(receipt)) {
          return { snapshots: [receipt] };
        }
      }
      if (isNewRunWanted()) await this.#options.next(state);
    }
  }

  /** Best effort: the date range's next run cleans up what is left. */
  async cleanUp(): Promise<void> {
    const { cleanUpExport } = cleanUpActivities();
    const { turn } = this.#state.turns;
    await CancellationScope.nonCancellable(() => cleanUpExport({ range: this.#range, turn })).catch(() => {});
  }

  async #prepare(): Promise<void> {
    const state = this.#state;
    // Without a worker the first activity waits for ever, and nothing else would say why.
    const taskQueue = exportTaskQueue(workflowInfo().taskQueue);
    state.waitReason = `no worker of the exports has begun yet (task queue ${taskQueue})`;
    this.#show();
    const prepared = await this.#withRetries(() => this.#activities.prepareExport({ range: this.#range }));
    state.expectedRows = prepared.expectedRows;
    state.waitReason = null;
  }

  /** Reads the next chunk; null if the scan had to begin anew. */
  async #readChunk(): Promise<ReadChunkResult | null> {
    const { runId, scan, checkpoint, repeatsLeft } = this.#state;
    const input = { range: this.#range, runId, scan, checkpoint, willRepeat: repeatsLeft > 0 };
    return this.#orNewScan(() =>
      this.#withRetries((probeStore) =>
        this.#turns.withTurn((turns, turn) => this.#activities.readChunk({ ...input, probeStore, turns, turn })),
      ),
    );
  }

  /** Publishes the scan; null if it had to begin anew. */
  async #publish(): Promise<SnapshotReceipt | null> {
    const { runId, scan, checkpoint, before, scanStartedAt, suspect = null } = this.#state;
    const inconsistency = inconsistencyOf(checkpoint, before);
    const exportedAt = new Date(scanStartedAt).toISOString();
    const finished = { range: this.#range, runId, scan, checkpoint, inconsistency, suspect, exportedAt };
    return this.#orNewScan(() => this.#withRetries(() => this.#activities.publishSnapshot(finished)));
  }

  #withRetries<T>(work: (probe: boolean) => Promise<T>): Promise<T> {
    return withRetries(work, (reason) => {
      this.#state.waitReason = reason;
      this.#show();
    });
  }

  /** Begins the scan anew if its staged rows are lost or are not the ones that were read. */
  async #orNewScan<T>(work: () => Promise<T>): Promise<T | null> {
    try {
      return await work();
    } catch (error) {
      const failure = failureOf(error);
      if (failure?.type !== 'StaleStaging') throw error;
      if (++this.#state.staleStagings > MAX_STALE_STAGINGS) {
        const details = { operation: 'read', error: failure.message };
        throw exportFailure(FAILURE.snapshotStoreFailed, failure.message, details);
      }
      this.#beginScan();
      return null;
    }
  }

  #apply(result: ReadChunkResult): void {
    const { checkpoint, pages, requests, interruption, asked } = result;
    const state = this.#state;
    const now = Date.now();
    if (interruption?.kind === 'failed' && interruption.reason !== state.waitReason)
      log.warn('An export got no page and tries again', { ...this.#range, reason: interruption.reason });
    state.checkpoint = checkpoint;
    state.notBefore = now;
    state.waitReason = interruption?.reason ?? null;
    if (pages > 0 || (!interruption && requests > 0)) {
      Object.assign(state, { failures: 0, failingSince: null });
    }
    if (!interruption) return;
    state.failures += 1;
    state.failingSince ??= now;
    // A queue makes it wait for no longer than it must.
    if (asked === null) state.notBefore = now + interruptionWaitMs(state.failures, interruption);
    const { reason: error } = interruption;
    if (now - state.failingSince >= MAX_UPSTREAM_OUTAGE_MS) {
      throw exportFailure(FAILURE.upstreamUnavailable, `The upstream gave no page for 24 hours: ${error}`, { error });
    }
  }

  /** Repeats an inconsistent scan if the run still allows it. */
  #repeatScan(): boolean {
    const state = this.#state;
    if (!state.checkpoint.inconsistency || state.repeatsLeft === 0) return false;
    state.repeatsLeft -= 1;
    const before = state.checkpoint;
    this.#beginScan();
    state.before = before;
    return true;
  }

  /** Scans a finished day a second time, an hour later, if its scan is implausible. */
  #scanAgainLater(receipt: SnapshotReceipt): boolean {
    const state = this.#state;
    const { scanStartedAt, checkpoint } = state;
    const reason = suspicionOf(receipt);
    if (!this.#options.secondScan || state.suspect || reason === undefined) return false;
    if (isProvisional(scanStartedAt, receipt.dateTo)) return false;
    state.suspect = { rows: checkpoint.rows, exportedAt: new Date(scanStartedAt).toISOString() };
    state.waitReason = reason;
    state.notBefore = Math.max(state.notBefore, Date.now() + SECOND_SCAN_DELAY_MS);
    this.#beginScan();
    state.before = null;
    return true;
  }

  #beginScan(): void {
    const state = this.#state;
    state.scan += 1;
    state.scanStartedAt = Math.max(Date.now(), state.notBefore);
    state.checkpoint = NEW_SCAN;
  }

  #show(): void {
    setCurrentDetails(rangeDetails(this.#range, this.#state, Date.now()));
  }
}
