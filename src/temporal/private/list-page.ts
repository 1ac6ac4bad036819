/**
 * Decides how one page of a list of workflows is read, from a token to the next.
 *
 * Needs: the SDK's own reader of a workflow in a list.
 * Can go when: the SDK's list takes and returns tokens.
 * Test: `test/private/client.test.ts`.
 */
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { executionInfoFromRaw } from '@temporalio/client/lib/helpers.js';
import { lenient } from '../workflow-clients.js';

interface PageRequest {
  query: string;
  pageSize: number;
  /** The token of the page before; null for the first page. */
  token: Uint8Array | null;
}

/** Some runs, newest first as far as the server sorts them, and the token of the next page; null at the end. */
interface RunPage {
  runs: WorkflowExecutionInfo[];
  token: Uint8Array | null;
}

/** Reads one page of a list of workflows, as a lenient client does. */
export async function readListPage(client: Client, { query, pageSize, token }: PageRequest): Promise<RunPage> {
  const { namespace, loadedDataConverter } = client.options;
  const converter = lenient(loadedDataConverter);
  const request = { namespace, query, pageSize, ...(token && { nextPageToken: token }) };
  const { executions, nextPageToken } = await client.workflowService.listWorkflowExecutions(request);
  const runs = await Promise.all(executions.map((raw) => executionInfoFromRaw(raw, converter, raw, namespace)));
  return { runs, token: nextPageToken.length > 0 ? nextPageToken : null };
}
