/** The workflows of webhooks: one that finds events, and one for each delivery of an event to an endpoint. */
import { continueAsNew, proxyActivities, upsertMemo, workflowInfo } from '@temporalio/workflow';
import {
  WEBHOOK_RETRY,
  webhookTaskQueue,
  type WebhookActivities,
  type WebhookDelivery,
  type WebhookOutcome,
  type WebhookSweepState,
} from '../../contract/webhooks.js';
import { checkDecoded } from '../handed-on.js';
import { goOnWithAnyVersion } from '../worker-version.js';

/** Starts a delivery of each event to each endpoint. Without a state it begins with what ends from now on. */
export async function webhookSweep(given: WebhookSweepState | null): Promise<never> {
  goOnWithAnyVersion();
  const { sweepEvents } = proxyActivities<Pick<WebhookActivities, 'sweepEvents'>>({
    taskQueue: webhookTaskQueue(workflowInfo().taskQueue),
    startToCloseTimeout: '1 hour', // a minute, and longer only after an outage
    heartbeatTimeout: '30 seconds',
    retry: { maximumInterval: '10 seconds' },
    summary: 'Find events',
    priority: { priorityKey: 1 },
  });
  checkDecoded(given);
  let state = given ?? { endsFrom: workflowInfo().startTime.getTime() };
  while (!workflowInfo().continueAsNewSuggested) {
    // A run that is started after this one was terminated goes on from here.
    upsertMemo({ ...state });
    state = await sweepEvents(state);
  }
  return continueAsNew<typeof webhookSweep>(state);
}

/** Delivers one event to one endpoint at least once. It fails after about three days of tries. */
export async function webhookDelivery(delivery: WebhookDelivery): Promise<WebhookOutcome> {
  goOnWithAnyVersion();
  const { deliverWebhook } = proxyActivities<Pick<WebhookActivities, 'deliverWebhook'>>({
    taskQueue: webhookTaskQueue(workflowInfo().taskQueue),
    startToCloseTimeout: '30 seconds',
    retry: WEBHOOK_RETRY,
    summary: `To ${delivery.endpoint.origin}`,
    // A server with fairness switched on hands out the deliveries of all endpoints in turn.
    priority: { fairnessKey: delivery.endpoint.id },
  });
  return deliverWebhook(delivery);
}
