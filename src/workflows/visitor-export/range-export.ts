/** Performs the export of one date range, as its one writer: range-transitions.ts decides each step. */
import {
  ApplicationFailure,
  CancellationScope,
  condition,
  ContinueAsNew,
  log,
  setCurrentDetails,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { ExportTurnRequest } from '../../activities/visitor-export/export-turns.js';
import { readTurn } from '../../request-queue/messages.js';
import { askAgainMs } from '../../request-queue/waits.js';
import {
  exportTaskQueue,
  visitorExportProgressQuery,
  type VisitorExportRange,
  type VisitorExportResult,
} from '../../contract.js';
import { requestTurnSignal, type Turn } from '../../contract/request-queue.js';
import type { ExportHow } from '../../exports/input.js';
import {
  after,
  begin,
  next,
  type ChunkResult,
  type StepOutcome,
  type RangeEnd,
  type RangeState,
  type Step,
} from '../../exports/range-transitions.js';
import { inconsistencyOf } from '../../exports/scan-checkpoint.js';
import { isNewRunWanted } from '../worker-version.js';
import { cleanUpActivities, exportActivities, failureOf, stepFailureOf } from './activities.js';
import { markDoubt, markWait, rangeDetails, rangeProgress } from './range-shown.js';

/** How a date range is exported. */
export interface RangeOptions extends ExportHow {
  /** What the run before continue-as-new passed on. */
  carried: RangeState | null;
  /** Continues as new. */
  continueAsNew: (state: RangeState) => Promise<never>;
}

/** Exports one date range as its one writer. */
export async function exportRange(range: VisitorExportRange, options: RangeOptions): Promise<VisitorExportResult> {
  const writer = new RangeWriter(range, options);
  try {
    return conclude(await writer.export());
  } catch (error) {
    if (!(error instanceof ContinueAsNew)) await writer.cleanUp();
    throw failureOf(error) ?? error;
  }
}

function conclude(end: RangeEnd): VisitorExportResult {
  if (end.kind === 'published') return { snapshots: [end.receipt] };
  const { type, message, details } = end;
  throw ApplicationFailure.create({ type, message, nonRetryable: true, details: [details] });
}

class RangeWriter {
  readonly #range: VisitorExportRange;
  readonly #options: RangeOptions;
  #state: RangeState;
  /** The turn that came, until the next step sees it. */
  #came: Turn | null = null;
  /** The turn of the last chunk, which alone reports it: a worker may have used it. */
  #lent: Turn | null = null;
  readonly #activities = exportActivities();

  constructor(range: VisitorExportRange, options: RangeOptions) {
    this.#range = range;
    this.#options = options;
    this.#state = options.carried ?? newState(options);
    setHandler(visitorExportProgressQuery, () => rangeProgress(range, this.#state, Date.now()));
    setHandler(requestTurnSignal, (given) => {
      const turn = readTurn(given);
      if (turn?.operation === 'visitors') this.#came = turn;
    });
  }

  async export(): Promise<RangeEnd> {
    for (;;) {
      setCurrentDetails(rangeDetails(this.#range, this.#state, Date.now()));
      markWait(this.#state, Date.now());
      const step = next(this.#state, Date.now());
      if (step.kind === 'done') return step.end;
      this.#take(await this.#perform(step));
      const hasWaited = step.kind === 'wait' || step.kind === 'awaitTurn';
      if (!hasWaited && !this.#state.end && isNewRunWanted()) await this.#options.continueAsNew(this.#state);
    }
  }

  /** Best effort: the date range's next run cleans up what is left. */
  async cleanUp(): Promise<void> {
    const { cleanUpExport } = cleanUpActivities();
    const { turn } = this.#state.turns;
    const unused = this.#came ?? (turn?.id === this.#lent?.id ? null : turn);
    const input = { range: this.#range, ...this.#turnRequest(), turn: unused };
    await CancellationScope.nonCancellable(() => cleanUpExport(input)).catch(() => {});
  }

  #take(outcome: StepOutcome): void {
    if (outcome.kind === 'read') this.#logFailedPage(outcome.chunk);
    if (outcome.kind === 'published') markDoubt(outcome.receipt);
    this.#state = after(this.#state, outcome, Date.now());
    if (this.#came) this.#state = after(this.#state, { kind: 'turn', turn: this.#came }, Date.now());
    this.#came = null;
  }

  async #perform(step: Exclude<Step, { kind: 'done' }>): Promise<StepOutcome> {
    switch (step.kind) {
      case 'wait':
        await sleep(step.ms);
        return { kind: 'waited' };
      case 'awaitTurn': {
        const waitMs = askAgainMs(step.queued.position, Math.random());
        const hasCome = await condition(() => this.#came !== null, waitMs);
        return { kind: hasCome ? 'waited' : 'noTurn' };
      }
      default:
        return this.#work(step).catch(stepFailureOf);
    }
  }

  async #work(step: Step & { kind: 'prepare' | 'read' | 'publish' }): Promise<StepOutcome> {
    switch (step.kind) {
      case 'prepare': {
        const prepared = await this.#activities.prepareExport({ range: this.#range, ...this.#turnRequest() });
        return { kind: 'prepared', ...prepared };
      }
      case 'read':
        return await this.#readChunk();
      case 'publish':
        return { kind: 'published', receipt: await this.#publish() };
    }
  }

  async #readChunk(): Promise<StepOutcome> {
    const { runId, scan, checkpoint, repeatsLeft, retries } = this.#state;
    const scanned = { range: this.#range, runId, scan, checkpoint, willRepeat: repeatsLeft > 0 };
    const probeStore = retries?.probe ?? false;
    this.#lent = this.#state.turns.turn;
    const ended = await this.#activities.readChunk({ ...scanned, probeStore, ...this.#turnRequest() });
    return 'held' in ended ? { kind: 'held', queued: ended.held } : { kind: 'read', chunk: ended };
  }

  #turnRequest(): ExportTurnRequest {
    const { since: askedAt, isOverdue, turn } = this.#state.turns;
    return { taskQueue: workflowInfo().taskQueue, priority: this.#options.priority, askedAt, turn, isOverdue };
  }

  #publish() {
    const { runId, scan, checkpoint, before, scanStartedAt, suspect } = this.#state;
    const inconsistency = inconsistencyOf(checkpoint, before);
    const exportedAt = new Date(scanStartedAt).toISOString();
    const finished = { range: this.#range, runId, scan, checkpoint, inconsistency, suspect, exportedAt };
    return this.#activities.publishSnapshot(finished);
  }

  #logFailedPage({ interruption }: ChunkResult): void {
    if (interruption?.kind !== 'failed' || interruption.reason === this.#state.waitReason) return;
    log.warn('An export got no page and tries again', { ...this.#range, reason: interruption.reason });
  }
}

function newState({ secondScan, giveUpAfterMs }: RangeOptions): RangeState {
  const { firstExecutionRunId: runId, taskQueue } = workflowInfo();
  // Without a worker the first activity waits for ever, and nothing else would say why.
  const waitReason = `no worker of the exports has begun yet (task queue ${exportTaskQueue(taskQueue)})`;
  return begin({ runId, secondScan, giveUpAfterMs, waitReason }, Date.now());
}
