/** Clients of workflows that work as the caller's own does, each but for one thing. */
import { WorkflowClient, type Client, type WorkflowClientOptions } from '@temporalio/client';

/** The options of a client like the caller's own, but for whether queries of closed workflows are refused. */
export function workflowOptionsOf({ connection, options, workflow }: Client): WorkflowClientOptions {
  const { namespace, identity, loadedDataConverter: dataConverter } = options;
  return { connection, namespace, identity, dataConverter, interceptors: workflow.options.interceptors };
}

/**
 * For one update with a start. An update that the workflow's validator refuses counts as accepted too, and the SDK's
 * handle does not say whether its outcome is known already. This can go when the handle says it.
 */
export class UpdateWithStartClient extends WorkflowClient {
  #isAnswered = false;

  constructor(client: Client) {
    super(workflowOptionsOf(client));
  }

  /** Whether the response to the update held its outcome: its result needs no further request then. */
  get isAnswered(): boolean {
    return this.#isAnswered;
  }

  protected override async _updateWithStartHandler(
    ...given: Parameters<WorkflowClient['_updateWithStartHandler']>
  ): ReturnType<WorkflowClient['_updateWithStartHandler']> {
    const output = await super._updateWithStartHandler(...given);
    this.#isAnswered = output.updateOutcome != null;
    return output;
  }
}
