import { WorkflowFailedError, type Client, type WorkflowHandleWithStartDetails } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import {
  visitorExportProgressQuery,
  visitorExportWorkflowId,
  VISITOR_EXPORT_WORKFLOW,
  type VisitorExportProgress,
  type VisitorExportRangeInput,
  type VisitorExportResult,
} from '../../contract.js';
import { parseExportInput, RANGE_EXPORT, toRangeInput } from '../../visitor-export/input.js';
import { InvalidInputError } from '../../contract/input-checks.js';
import { ExportCanceledError, ExportFailedError } from '../errors.js';
import { limitsOf, type ClientContext } from '../settings.js';
import { checkNames, type Names } from '../known-fields.js';
import { checkWaitOptions, longWait, temporalCall, type CallOptions, type WaitOptions } from '../temporal-call.js';
import { jobUrl } from '../web-ui.js';
import { askWorkflow } from '../../temporal/workflow-clients.js';

type Handle = WorkflowHandleWithStartDetails<(input: VisitorExportRangeInput) => Promise<VisitorExportResult>>;

/** A query that takes longer has no worker to answer it. */
const QUERY_MS = 5_000;

/**
 * A running export of one date range, started by this call or an earlier one. An interface, so that a plain object can
 * stand in for it in tests.
 */
export interface VisitorExportHandle {
  readonly workflowId: string;
  readonly runId: string;
  /** The export's page in Temporal's web UI; null if its address is unknown. */
  readonly url: string | null;

  /** The export's progress, to the last chunk; null where no worker answers. */
  progress(options?: CallOptions): Promise<VisitorExportProgress | null>;

  /** Waits for the end; throws ExportFailedError or ExportCanceledError where there is no snapshot to tell of. */
  result(options?: WaitOptions): Promise<VisitorExportResult>;
}

class TemporalExportHandle implements VisitorExportHandle {
  readonly workflowId: string;
  readonly runId: string;
  readonly url: string | null;
  readonly #client: Client;
  readonly #context: ClientContext;
  readonly #handle: Handle;

  constructor(context: ClientContext, handle: Handle) {
    const { client, webUi } = context;
    this.#client = client;
    this.#context = context;
    this.#handle = handle;
    this.workflowId = handle.workflowId;
    this.runId = handle.firstExecutionRunId;
    this.url = webUi && jobUrl(webUi, this);
  }

  async progress(options: CallOptions = {}): Promise<VisitorExportProgress | null> {
    const { workflowId } = this;
    const { signal, timeoutMs } = limitsOf(this.#context, options);
    try {
      return await temporalCall(this.#client, { signal, timeoutMs: timeoutMs ?? QUERY_MS }, () =>
        askWorkflow(this.#client, { workflowId }, visitorExportProgressQuery),
      );
    } catch {
      signal?.throwIfAborted();
      return null;
    }
  }

  async result(options: WaitOptions = {}): Promise<VisitorExportResult> {
    checkWaitOptions(options);
    try {
      return await longWait(this.#client, options?.signal, () => this.#handle.result(), {
        logger: this.#context.logger,
      });
    } catch (error) {
      if (!(error instanceof WorkflowFailedError)) throw error;
      if (error.cause instanceof CancelledFailure) throw new ExportCanceledError(this.workflowId, { cause: error });
      const { cause } = error;
      const type = cause instanceof ApplicationFailure ? (cause.type ?? 'Error') : (cause?.name ?? 'Error');
      throw new ExportFailedError(this.workflowId, type, messageOf(cause) ?? error.message, { cause: error });
    }
  }
}

/** The failure's message, with the upstream's text where it lacks it. */
function messageOf(cause: Error | undefined): string | undefined {
  const [details] = (cause instanceof ApplicationFailure ? cause.details : null) ?? [];
  const { error } = (details ?? {}) as { error?: unknown };
  const text = typeof error === 'string' ? error : '';
  if (cause === undefined || text === '' || cause.message.includes(text)) return cause?.message;
  return `${cause.message}: ${text}`;
}

/** What an explicit range is started with. Throws InvalidInputError. */
function rangeExportStart(given: VisitorExportRangeInput) {
  const spec = parseExportInput(given);
  checkNames<object>(given, 'field', RANGE_EXPORT as Names<object>);
  if (spec.kind !== 'range') throw new InvalidInputError('dateFrom', 'must be given');
  const { projectId, dateFrom, dateTo } = spec.range;
  return { workflowId: visitorExportWorkflowId(projectId, dateFrom, dateTo), input: toRangeInput(spec.range, spec) };
}

/**
 * Starts the export of a date range, or joins the one that is running. Throws InvalidInputError before anything is
 * sent.
 */
export async function startVisitorExport(
  context: ClientContext,
  range: VisitorExportRangeInput,
): Promise<VisitorExportHandle> {
  const { client, taskQueue } = context;
  const { workflowId, input } = rangeExportStart(range);
  const handle: Handle = await client.workflow.start(VISITOR_EXPORT_WORKFLOW, {
    workflowId,
    taskQueue,
    args: [input],
    workflowIdConflictPolicy: 'USE_EXISTING',
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    staticSummary: `Visitors, ${input.dateFrom}..${input.dateTo}`,
  });
  return new TemporalExportHandle(context, handle);
}
