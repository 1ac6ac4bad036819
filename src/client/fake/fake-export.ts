/** One export without Temporal: what callers get of it, and how a test lets it end. */
import { randomUUID } from 'node:crypto';
import type {
  SnapshotReceipt,
  VisitorExportProgress,
  VisitorExportRangeInput,
  VisitorExportResult,
} from '../../contract.js';
import { ExportCanceledError, ExportFailedError } from '../errors.js';
import type { VisitorExportHandle } from '../visitor-export/handle.js';
import { FakeChanges } from './fake-job.js';

/** An export of `FakeAgentJobs`. It runs until the test says how it ends. */
export class FakeExport {
  readonly workflowId: string;
  readonly runId: string = randomUUID();
  readonly input: VisitorExportRangeInput;
  /** What its handles tell as their progress. */
  progress: VisitorExportProgress | null = null;
  #end: VisitorExportResult | Error | null = null;
  readonly #changes = new FakeChanges();

  constructor(workflowId: string, input: VisitorExportRangeInput) {
    this.workflowId = workflowId;
    this.input = input;
  }

  get hasEnded(): boolean {
    return this.#end !== null;
  }

  /** The snapshot is there. */
  finish(receipt: Partial<SnapshotReceipt> = {}): void {
    const { projectId, dateFrom, dateTo } = this.input;
    const none = { rows: 0, totals: { human: 0, ai: 0, total: 0 }, files: 0 };
    const said = { consistent: true, provisional: false, unchanged: false };
    const place = { snapshotId: this.runId, location: `memory:${this.workflowId}` };
    this.#close({ snapshots: [{ ...place, projectId, dateFrom, dateTo, ...none, ...said, ...receipt }] });
  }

  /** There is none; `type` is a failure's, such as `ExportRejected`. */
  fail(type: string, message: string): void {
    this.#close(new ExportFailedError(this.workflowId, type, message));
  }

  /** Ends it as a cancellation of its workflow does. */
  cancel(): void {
    this.#close(new ExportCanceledError(this.workflowId));
  }

  /** What callers get. */
  get handle(): VisitorExportHandle {
    return {
      ...{ workflowId: this.workflowId, runId: this.runId, url: null },
      progress: async ({ signal } = {}) => {
        signal?.throwIfAborted();
        return this.progress;
      },
      result: async ({ signal } = {}) => {
        const end = await this.#changes.until(() => this.#end, signal);
        if (end instanceof Error) throw end;
        return end;
      },
    };
  }

  #close(end: VisitorExportResult | Error): void {
    if (this.#end) throw new Error(`the fake export ${this.workflowId} has ended`);
    this.#end = end;
    this.#changes.tell();
  }
}
