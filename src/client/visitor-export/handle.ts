/** Starts the export of a date range, and what a caller then does with it. */
import { WorkflowFailedError, type WorkflowHandleWithStartDetails } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { visitorExportProgressQuery, visitorExportWorkflowId, VISITOR_EXPORT_WORKFLOW } from '../../contract.js';
import type { VisitorExportProgress, VisitorExportRangeInput, VisitorExportResult } from '../../contract.js';
import { parseExportInput, RANGE_EXPORT, toRangeInput } from '../../exports/input.js';
import { InvalidInputError } from '../../contract/errors.js';
import { ExportCanceledError, ExportFailedError } from '../errors.js';
import { checkNames, checkWaitOptions, limitsOf } from '../settings.js';
import type { CallOptions, ClientContext, Names, WaitOptions } from '../settings.js';
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

function exportHandle(context: ClientContext, handle: Handle): VisitorExportHandle {
  const { client, webUi, logger } = context;
  const { workflowId, firstExecutionRunId: runId } = handle;
  return {
    workflowId,
    runId,
    url: webUi && jobUrl(webUi, { workflowId, runId }),
    progress: async (options = {}) => {
      const { signal, timeoutMs } = limitsOf(context, options);
      const ask = () => askWorkflow(client, { workflowId }, visitorExportProgressQuery);
      try {
        return await temporalCall(client, { signal, timeoutMs: timeoutMs ?? QUERY_MS }, ask);
      } catch {
        signal?.throwIfAborted();
        return null;
      }
    },
    result: async (options = {}) => {
      checkWaitOptions(options);
      try {
        return await longWait(client, options?.signal, () => handle.result(), { logger });
      } catch (error) {
        throw error instanceof WorkflowFailedError ? failureOf(workflowId, error) : error;
      }
    },
  };
}

function failureOf(workflowId: string, error: WorkflowFailedError): Error {
  const { cause } = error;
  if (cause instanceof CancelledFailure) return new ExportCanceledError(workflowId, { cause: error });
  const isFailure = cause instanceof ApplicationFailure;
  const type = (isFailure ? cause.type : cause?.name) ?? 'Error';
  const message = isFailure ? messageOf(cause) : (cause ?? error).message;
  return new ExportFailedError(workflowId, type, message, { cause: error });
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
    taskQueue,
    args: [toRangeInput(spec.range, spec.how)],
    workflowIdConflictPolicy: 'USE_EXISTING',
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    staticSummary: `Visitors, ${dateFrom}..${dateTo}`,
  });
  return exportHandle(context, handle);
}
