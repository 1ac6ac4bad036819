/** The activities of webhooks, on a task queue of their own: workers that have WEBHOOKS_FILE serve it. */
import { setTimeout as delay } from 'node:timers/promises';
import { ApplicationFailure, Context } from '@temporalio/activity';
import {
  NOT_DELIVERED_FAILURE,
  WEBHOOK_RETRIES,
  type WebhookActivities,
  type WebhookDelivery,
  type WebhookFate,
  type WebhookSweepState,
} from '../../contract/webhooks.js';
import { webUiOf } from '../../client/web-ui.js';
import { startServerClock } from '../../temporal/activity-attempt.js';
import type { Endpoints } from './endpoints.js';
import { post } from './post.js';
import { EventSweep } from './sweep.js';

/** What the activities work with. */
interface Dependencies {
  /** Of the jobs. */
  taskQueue: string;
  endpoints: Endpoints;
  /** Of Temporal's web UI, where it is set, and of Temporal itself, next to which it usually is. */
  webUiUrl: string | undefined;
  address: string;
  /** Ends a sweep, which another worker goes on with. */
  shutdownSignal: AbortSignal;
  /** Told of each try. */
  onTry: (receiver: string, result: WebhookFate | 'failed') => void;
}

/** What runs in one attempt; then the workflow has a newer state. */
const SWEEP_MS = 10 * 60_000;
const LOOK_EVERY_MS = 5_000;
const BEAT_EVERY_MS = 20_000;

/** What a worker of webhooks registers. */
export function createWebhookActivities(dependencies: Dependencies): WebhookActivities {
  return {
    sweepEvents: (state) => sweepEvents(dependencies, state),
    deliverWebhook: (delivery) => deliverWebhook(dependencies, delivery),
  };
}

async function sweepEvents(dependencies: Dependencies, given: WebhookSweepState): Promise<WebhookSweepState> {
  const { shutdownSignal, taskQueue, endpoints, webUiUrl, address } = dependencies;
  const { info, client, cancellationSignal, heartbeat } = Context.current();
  const signal = AbortSignal.any([shutdownSignal, cancellationSignal]);
  const webUi = webUiOf({ connection: { options: { address } }, options: client.options }, webUiUrl);
  const sweep = new EventSweep({ client, taskQueue, endpoints, webUi, now: startServerClock() });
  let state = (info.heartbeatDetails as WebhookSweepState | undefined) ?? given;
  const beat = setInterval(() => heartbeat(state), BEAT_EVERY_MS);
  try {
    const startedAt = performance.now();
    while (!signal.aborted && performance.now() - startedAt < SWEEP_MS) {
      state = await sweep.look(state);
      await delay(LOOK_EVERY_MS, undefined, { signal }).catch(() => {});
    }
    return state;
  } finally {
    clearInterval(beat);
  }
}

async function deliverWebhook(dependencies: Dependencies, delivery: WebhookDelivery): Promise<WebhookFate> {
  const { endpoints, onTry } = dependencies;
  const { projectId, eventId, endpoint, body } = delivery;
  const { allowPrivate } = endpoints;
  // As it is now: a secret may have been exchanged since the last try.
  const named = await endpoints.of(projectId).catch(() => {
    throw notDelivered('WEBHOOKS_FILE cannot be used: see the log');
  });
  const found = named.find(({ id }) => id === endpoint.id);
  if (!found) throw notDelivered('WEBHOOKS_FILE names this address no more');
  const tell = (result: WebhookFate | 'failed') => onTry(endpoint.origin, result);
  try {
    const answer = await post({ endpoint: found, eventId, body, allowPrivate });
    const fate = fateOf(endpoint.origin, answer);
    tell(fate);
    return fate;
  } catch (error) {
    tell('failed');
    throw error instanceof ApplicationFailure ? error : notDelivered(`${endpoint.origin}: ${reasonOf(error)}`);
  }
}

const WAITS = [429, 503];

function fateOf(
  origin: string,
  { status, retryAfterMs }: { status: number; retryAfterMs: number | null },
): WebhookFate {
  if (status >= 200 && status < 300) return 'delivered';
  if (status === 410) return 'gone';
  throw notDelivered(`${origin} answered ${status}`, WAITS.includes(status) ? retryAfterMs : null);
}

/** A receiver that says when to come again may say later than the next try, never sooner. */
function notDelivered(message: string, retryAfterMs: number | null = null): ApplicationFailure {
  const { initialInterval, backoffCoefficient } = WEBHOOK_RETRIES;
  const ownWaitMs = initialInterval * backoffCoefficient ** (Context.current().info.attempt - 1);
  const failure = ApplicationFailure.create({
    message,
    type: NOT_DELIVERED_FAILURE,
    ...(retryAfterMs !== null && retryAfterMs > ownWaitMs && { nextRetryDelay: retryAfterMs }),
  });
  failure.stack = '';
  return failure;
}

/** Node's and undici's own words, which hold no more of the address than its host. */
function reasonOf(error: unknown): string {
  const { name, message, code } = error as NodeJS.ErrnoException;
  return name === 'TimeoutError' ? 'did not answer within 15 seconds' : (code ?? message);
}
