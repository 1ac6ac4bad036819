/** Starts the export of a date range, and what a caller then does with it. */
import { WorkflowFailedError, type WorkflowHandleWithStartDetails } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import {
  visitorExportProgressQuery,
  visitorExportWorkflowId,
  VISITOR_EXPORT_WORKFLOW,
  type VisitorExportProgress,
  type VisitorExportRangeInput,
  type VisitorExportResult,
} from '../../contract.js';
import { parseExportInput, RANGE_EXPORT, toRangeInput } from '../../exports/input.js';
import { InvalidInputError } from '../../contract/errors.js';
import { ExportCanceledError, ExportFailedError } from '../errors.js';
import {
  type CallOptions,
  checkNames,
  checkWaitOptions,
  type ClientContext,
  limitsOf,
  type Names,
  type WaitOptions,
} from '../settings.js';
import { longWait, temporalCall } from '../temporal-call.js';
import { jobUrl } from '../web-ui.js';
import { askWorkflow } from '../../temporal/workflow-clients.js';

type Handle = WorkflowHandleWithStartDetails<(input: VisitorExportRangeInput) => Promise<VisitorExportResult>>;

/** A query that takes longer has no worker to answer it. */
const QUERY_MS = 5_000;

/** A running export of one date range. An interface, so that a plain object can stand in for it in tests. */
export interface VisitorExportHandle {
  readonly workflowId: string;
  readonly runId: string;
  /** The export's page in Temporal's web UI; null if its address is unknown. */
  readonly url: string | null;

  /** The export's progress, to the last chunk; null if no worker answers. */
  progress(options?: CallOptions): Promise<VisitorExportProgress | null>;

  /** Waits for the end; throws ExportFailedError or ExportCanceledError if there is no snapshot. */
  result(options?: WaitOptions): Promise<VisitorExportResult>;
}

class TemporalExportHandle implements VisitorExportHandle {
  readonly workflowId: string;
  readonly runId: string;
  readonly url: string | null;
  readonly #context: ClientContext;
  readonly #handle: Handle;

  constructor(context: ClientContext, handle: Handle) {
    this.#context = context;
    this.#handle = handle;
    this.workflowId = handle.workflowId;
    this.runId = handle.firstExecutionRunId;
    this.url = context.webUi && jobUrl(context.webUi, this);
  }

  async progress(options: CallOptions = {}): Promise<VisitorExportProgress | null> {
    const { workflowId } = this;
    const { client } = this.#context;
    const { signal, timeoutMs } = limitsOf(this.#context, options);
    const ask = () => askWorkflow(client, { workflowId }, visitorExportProgressQuery);
    try {
      return await temporalCall(client, { signal, timeoutMs: timeoutMs ?? QUERY_MS }, ask);
    } catch {
      signal?.throwIfAborted();
      return null;
    }
  }

  async result(options: WaitOptions = {}): Promise<VisitorExportResult> {
    checkWaitOptions(options);
    try {
      const { client, logger } = this.#context;
      return await longWait(client, options?.signal, () => this.#handle.result(), { logger });
    } catch (error) {
      if (!(error instanceof WorkflowFailedError)) throw error;
      if (error.cause instanceof CancelledFailure) throw new ExportCanceledError(this.workflowId, { cause: error });
      const { cause } = error;
      const isFailure = cause instanceof ApplicationFailure;
      const type = (isFailure ? cause.type : cause?.name) ?? 'Error';
      const message = isFailure ? messageOf(cause) : (cause ?? error).message;
      throw new ExportFailedError(this.workflowId, type, message, { cause: error });
    }
  }
}

/** The failure's message, with the upstream's text if it lacks that. */
function messageOf({ message, details }: ApplicationFailure): string {
  const [{ error = '' } = {}] = (details ?? []) as [{ error?: unknown }?];
  return typeof error !== 'string' || message.includes(error) ? message : `${message}: ${error}`;
}

/** Starts the export of a date range, or joins the one that runs. Throws InvalidInputError before anything is sent. */
export async function startVisitorExport(
  context: ClientContext,
  given: VisitorExportRangeInput,
): Promise<VisitorExportHandle> {
  const { client, taskQueue } = context;
  const spec = parseExportInput(given);
  checkNames<object>(given, 'field', RANGE_EXPORT as Names<object>);
  if (spec.kind !== 'range') throw new InvalidInputError('dateFrom', 'must be given');
  const { projectId, dateFrom, dateTo } = spec.range;
  const handle: Handle = await client.workflow.start(VISITOR_EXPORT_WORKFLOW, {
    workflowId: visitorExportWorkflowId(projectId, dateFrom, dateTo),
    ...{ taskQueue, args: [toRangeInput(spec.range, spec.how)] },
    workflowIdConflictPolicy: 'USE_EXISTING',
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    staticSummary: `Visitors, ${dateFrom}..${dateTo}`,
  });
  return new TemporalExportHandle(context, handle);
}
