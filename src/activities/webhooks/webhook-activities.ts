/** The activities of webhooks, on a task queue of their own, which workers with WEBHOOKS_FILE serve. */
import { ApplicationFailure, Context } from '@temporalio/activity';
import { webUiOf } from '../../client/web-ui.js';
import { WEBHOOK_RETRY } from '../../contract/webhooks.js';
import type { WebhookActivities, WebhookDelivery, WebhookOutcome } from '../../contract/webhooks.js';
import type { Endpoints } from './endpoints.js';
import { post, reasonOf } from './post.js';
import { sweepEvents, type SweepOptions } from './sweep.js';

interface Dependencies extends Pick<SweepOptions, 'taskQueue' | 'endpoints' | 'onSearch'> {
  /** The setting of Temporal's web UI, and the address of Temporal. */
  webUiUrl: string | undefined;
  address: string;
  shutdownSignal: AbortSignal;
  onTry: (receiver: string, result: WebhookOutcome | 'failed') => void;
}

/** What a worker of webhooks registers. */
export function createWebhookActivities(dependencies: Dependencies): WebhookActivities {
  const { webUiUrl, address, shutdownSignal, endpoints, onTry } = dependencies;
  const page = { size: Infinity };
  return {
    sweepEvents: (state) => {
      const { client, cancellationSignal } = Context.current();
      const webUi = webUiOf({ connection: { options: { address } }, options: client.options }, webUiUrl);
      const signal = AbortSignal.any([shutdownSignal, cancellationSignal]);
      return sweepEvents({ ...dependencies, client, webUi, signal, page }, state);
    },
    deliverWebhook: async (delivery) => {
      const { origin } = delivery.endpoint;
      const answer = await send(endpoints, delivery).catch((error: unknown) => {
        onTry(origin, 'failed');
        throw error;
      });
      const { status, retryAfterMs } = answer;
      const result = status === 410 ? 'gone' : status >= 200 && status < 300 ? 'delivered' : 'failed';
      onTry(origin, result);
      if (result !== 'failed') return result;
      throw notDelivered(`${origin} answered ${status}`, status === 429 || status === 503 ? retryAfterMs : null);
    },
  };
}

async function send(endpoints: Endpoints, { projectId, eventId, endpoint, body }: WebhookDelivery) {
  const { id, origin } = endpoint;
  // Read at each try: a secret may have changed.
  const named = (await endpoints.of(projectId)).filter((one) => one.id === id);
  const [first] = named;
  if (!first) {
    const of = projectId === null ? 'all projects' : `project ${JSON.stringify(projectId)}`;
    throw notDelivered(`WEBHOOKS_FILE names this address at ${origin} no more for ${of}`);
  }
  // An address that the file names twice may know the secrets of one of them alone.
  const found = { url: first.url, secrets: named.flatMap(({ secrets }) => secrets) };
  return post({ endpoint: found, eventId, body, way: endpoints.way }).catch((error: unknown) => {
    throw notDelivered(`${origin}: ${reasonOf(error)}`);
  });
}

/** A `Retry-After` makes the next try later, never sooner. */
function notDelivered(message: string, retryAfterMs: number | null = null): ApplicationFailure {
  const { initialInterval, backoffCoefficient } = WEBHOOK_RETRY;
  const waitMs = initialInterval * backoffCoefficient ** (Context.current().info.attempt - 1);
  const later = retryAfterMs !== null && retryAfterMs > waitMs && { nextRetryDelay: retryAfterMs };
  const failure = ApplicationFailure.create({ message, type: 'WebhookNotDelivered', ...later });
  failure.stack = '';
  return failure;
}
