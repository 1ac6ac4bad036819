/** The activities of webhooks, on a task queue of their own, which workers with WEBHOOKS_FILE serve. */
import { ApplicationFailure, Context } from '@temporalio/activity';
import { webUiOf } from '../../client/web-ui.js';
import type { WebhookActivities, WebhookDelivery, WebhookOutcome } from '../../contract/webhooks.js';
import { DAY_MS } from '../../contract/shared.js';
import { tryLater } from '../../temporal/activity-attempt.js';
import type { Endpoints } from './endpoints.js';
import { post, reasonOf } from './post.js';
import { sweepEvents } from './sweep.js';

/** What the activities work with. */
interface Dependencies {
  /** The task queue of the jobs. */
  taskQueue: string;
  endpoints: Endpoints;
  /** The setting of Temporal's web UI, and the address of Temporal. */
  webUiUrl: string | undefined;
  address: string;
  /** Ends a sweep. */
  shutdownSignal: AbortSignal;
  /** Called after each try. */
  onTry: (receiver: string, result: WebhookOutcome | 'failed') => void;
  /** Called after each search for new ends. */
  onLook: () => void;
}

/** What a worker of webhooks registers. */
export function createWebhookActivities(dependencies: Dependencies): WebhookActivities {
  const { webUiUrl, address, shutdownSignal } = dependencies;
  const places = new Places();
  return {
    sweepEvents: (state) => {
      const { client, cancellationSignal } = Context.current();
      const webUi = webUiOf({ connection: { options: { address } }, options: client.options }, webUiUrl);
      const signal = AbortSignal.any([shutdownSignal, cancellationSignal]);
      return sweepEvents({ ...dependencies, client, webUi, signal }, state);
    },
    deliverWebhook: (delivery) => places.use(delivery.endpoint, () => deliver(dependencies, delivery)),
  };
}

/** Requests that one endpoint may have open in a worker: one that hangs leaves room for the others. */
const MAX_OPEN = 20;
const WAIT_MS = 5_000;
/** An endpoint that hangs may have thousands of deliveries, so each asks less and less often. */
const MAX_WAIT_MS = 60_000;

class Places {
  readonly #open = new Map<string, number>();

  /** Does the work if its endpoint has a place left. */
  async use<T>({ id, origin }: WebhookDelivery['endpoint'], work: () => Promise<T>): Promise<T> {
    const count = this.#open.get(id) ?? 0;
    if (count >= MAX_OPEN) {
      const waitMs = Math.min(WAIT_MS * Context.current().info.attempt, MAX_WAIT_MS) * (0.5 + Math.random());
      throw tryLater('WebhookWaits', `${origin} has ${count} requests open`, 'asks again', waitMs);
    }
    this.#open.set(id, count + 1);
    try {
      return await work();
    } finally {
      const left = this.#open.get(id)! - 1;
      if (left > 0) this.#open.set(id, left);
      else this.#open.delete(id);
    }
  }
}

async function deliver({ endpoints, onTry }: Dependencies, delivery: WebhookDelivery): Promise<WebhookOutcome> {
  const { projectId, eventId, endpoint, body } = delivery;
  const { origin } = endpoint;
  // Read at each try: a secret may have changed.
  const named = await endpoints.of(projectId).catch(() => {
    throw tryLater('WebhookWaits', 'WEBHOOKS_FILE cannot be used: see the log', 'looks again', MAX_WAIT_MS);
  });
  const found = named.find(({ id }) => id === endpoint.id);
  if (!found) {
    const of = projectId === null ? 'all projects' : `project ${JSON.stringify(projectId)}`;
    throw notDelivered(`WEBHOOKS_FILE names this address at ${origin} no more for ${of}`);
  }
  const answer = await post({ endpoint: found, eventId, body, way: endpoints.way }).catch((error: unknown) => {
    onTry(origin, 'failed');
    throw notDelivered(`${origin}: ${reasonOf(error)}`);
  });
  const { status, retryAfterMs } = answer;
  const result = status === 410 ? 'gone' : status >= 200 && status < 300 ? 'delivered' : 'failed';
  onTry(origin, result);
  if (result !== 'failed') return result;
  throw notDelivered(`${origin} answered ${status}`, status === 429 || status === 503 ? retryAfterMs : null);
}

/** Ten repetitions within 75 hours. A receiver that is back waits for a day at most. */
const MAX_TRIES = 11;
const FIRST_WAIT_MS = 30_000;
const WAIT_FACTOR = 3;

/**
 * Counts the try in the attempt's details, because an attempt without a place, or whose worker died, is no try. A
 * `Retry-After` makes the next try later, never sooner.
 */
function notDelivered(message: string, retryAfterMs: number | null = null): ApplicationFailure {
  const context = Context.current();
  const tries = ((context.info.heartbeatDetails as { tries: number } | undefined)?.tries ?? 0) + 1;
  context.heartbeat({ tries });
  const waitMs = Math.min(FIRST_WAIT_MS * WAIT_FACTOR ** (tries - 1), DAY_MS);
  const nextRetryDelay = Math.max(waitMs, retryAfterMs ?? 0);
  const type = 'WebhookNotDelivered';
  const failure = ApplicationFailure.create({ message, type, nonRetryable: tries >= MAX_TRIES, nextRetryDelay });
  failure.stack = '';
  return failure;
}
