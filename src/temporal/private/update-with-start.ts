/**
 * Decides whether an update that its validator rejected needs a further request for its outcome: it counts as accepted.
 *
 * Needs: the handler of the SDK's client below its interceptors, since the handle of an update does not say whether its
 * outcome is known already.
 * Can go when: the handle says it.
 * Test: `test/private/client.test.ts`.
 */
import { type Client, WorkflowClient } from '@temporalio/client';
import { workflowOptionsOf } from '../workflow-clients.js';

/** For one update with a start. */
export class UpdateWithStartClient extends WorkflowClient {
  /** Whether the response to the update held its outcome: its result needs no further request then. */
  isAnswered = false;

  constructor(client: Client) {
    super(workflowOptionsOf(client));
  }

  protected override async _updateWithStartHandler(
    ...given: Parameters<WorkflowClient['_updateWithStartHandler']>
  ): ReturnType<WorkflowClient['_updateWithStartHandler']> {
    const output = await super._updateWithStartHandler(...given);
    this.isAnswered = output.updateOutcome != null;
    return output;
  }
}
