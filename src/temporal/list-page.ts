/**
 * The SDK's list goes over all pages and tells no page's end. This reads one page, with the token of the next one; it
 * can go when the SDK's list takes and tells tokens.
 */
import { WorkflowClient, type Client, type WorkflowExecutionInfo } from '@temporalio/client';
import { lenientOptions } from './lenient-workflow-client.js';

/** What to read. */
export interface PageRequest {
  query: string;
  pageSize: number;
  /** Of the page before; null for the first page. */
  token: Uint8Array | null;
}

/** Some runs, newest first as far as the server sorts them, and the token of the next page; null at the end. */
export interface RunPage {
  runs: WorkflowExecutionInfo[];
  token: Uint8Array | null;
}

/** Reads one page of a list of workflows. */
export async function readListPage(client: Client, { query, pageSize, token }: PageRequest): Promise<RunPage> {
  const workflows = new OnePageClient(client, token);
  const runs: WorkflowExecutionInfo[] = [];
  for await (const run of workflows.list({ query, pageSize })) runs.push(run);
  return { runs, token: workflows.nextToken };
}

/** A client whose list begins where a token says, and ends with that page. */
class OnePageClient extends WorkflowClient {
  readonly #token: Uint8Array | null;
  nextToken: Uint8Array | null = null;

  constructor(client: Client, token: Uint8Array | null) {
    super(lenientOptions(client));
    this.#token = token;
  }

  override get workflowService(): WorkflowClient['workflowService'] {
    const service = super.workflowService;
    const listWorkflowExecutions = async (request: object) => {
      const page = await service.listWorkflowExecutions({
        ...request,
        ...(this.#token !== null && { nextPageToken: this.#token }),
      });
      this.nextToken = page.nextPageToken.length > 0 ? page.nextPageToken : null;
      page.nextPageToken = new Uint8Array();
      return page;
    };
    return Object.create(service, { listWorkflowExecutions: { value: listWorkflowExecutions } }) as typeof service;
  }
}
