/** The workflows of webhooks: one that finds events, and one for each delivery of an event to an endpoint. */
import { continueAsNew, proxyActivities, setCurrentDetails, workflowInfo } from '@temporalio/workflow';
import { plainMarkdown } from '../../agent-job/markdown.js';
import {
  webhookTaskQueue,
  type WebhookActivities,
  type WebhookDelivery,
  type WebhookFate,
  type WebhookSweepState,
} from '../../contract/webhooks.js';
import { goOnWithAnyVersion } from '../worker-version.js';

/**
 * Finds what ended or came to be in doubt, and starts a delivery of each to each endpoint. It begins where another run
 * had come to, else with what happens from now on, and never ends.
 */
export async function webhookSweep(given: WebhookSweepState | null): Promise<never> {
  goOnWithAnyVersion();
  const { sweepEvents } = proxyActivities<Pick<WebhookActivities, 'sweepEvents'>>({
    taskQueue: webhookTaskQueue(workflowInfo().taskQueue),
    startToCloseTimeout: '75 seconds',
    retry: { maximumInterval: '10 seconds' },
    summary: 'Look for events',
    priority: { priorityKey: 1 },
  });
  let state = given ?? { endsFrom: workflowInfo().startTime.getTime() };
  while (!workflowInfo().continueAsNewSuggested) state = await sweepEvents(state);
  return continueAsNew<typeof webhookSweep>(state);
}

/** Delivers one event to one endpoint, at least once; fails where it was not taken within about three days. */
export async function webhookDelivery(delivery: WebhookDelivery): Promise<WebhookFate> {
  goOnWithAnyVersion();
  const { deliverWebhook } = proxyActivities<Pick<WebhookActivities, 'deliverWebhook'>>({
    taskQueue: webhookTaskQueue(workflowInfo().taskQueue),
    startToCloseTimeout: '30 seconds',
    // Attempts that found no place, or no file that can be used, are no tries, and must end some time, too.
    scheduleToCloseTimeout: '7 days',
    // The tries and their waits are the activity's; this is for a worker that died.
    retry: { initialInterval: '30 seconds', backoffCoefficient: 1 },
    summary: `To ${delivery.endpoint.origin}`,
    // A server with fairness switched on hands out those of each endpoint by turns.
    priority: { fairnessKey: delivery.endpoint.id },
  });
  setCurrentDetails(`**${delivery.type}** to ${plainMarkdown(delivery.endpoint.origin)}\n\n**Id** ${delivery.eventId}`);
  return deliverWebhook(delivery);
}
