/** The activities of webhooks, on a task queue of their own: workers that have WEBHOOKS_FILE serve it. */
import { setTimeout as delay } from 'node:timers/promises';
import { ApplicationFailure, Context } from '@temporalio/activity';
import {
  NOT_DELIVERED_FAILURE,
  type WebhookActivities,
  type WebhookDelivery,
  type WebhookFate,
  type WebhookSweepState,
} from '../../contract/webhooks.js';
import { DAY_MS } from '../../contract/shared.js';
import { webUiOf } from '../../client/web-ui.js';
import { startServerClock, tryLater } from '../../temporal/activity-attempt.js';
import type { Endpoints } from './endpoints.js';
import { post, reasonOf } from './post.js';
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
  /** Told of each look for events that came to its end. */
  onLook: () => void;
}

/** One attempt; then the workflow has a newer state. Without heartbeats: that of a dead worker is over soon. */
const SWEEP_MS = 60_000;
const LOOK_EVERY_MS = 5_000;

/** What a worker of webhooks registers. */
export function createWebhookActivities(dependencies: Dependencies): WebhookActivities {
  let sweep: EventSweep | undefined;
  const open = new Map<string, number>();
  return {
    sweepEvents: (state) => sweepEvents(dependencies, (sweep ??= createSweep(dependencies)), state),
    deliverWebhook: (delivery) => inPlace(open, delivery.endpoint, () => deliverWebhook(dependencies, delivery)),
  };
}

/** In an attempt, whose client is that of all attempts. */
function createSweep({ taskQueue, endpoints, webUiUrl, address }: Dependencies): EventSweep {
  const { client } = Context.current();
  const webUi = webUiOf({ connection: { options: { address } }, options: client.options }, webUiUrl);
  return new EventSweep({ client, taskQueue, endpoints, webUi });
}

async function sweepEvents(
  { shutdownSignal, onLook }: Dependencies,
  sweep: EventSweep,
  given: WebhookSweepState,
): Promise<WebhookSweepState> {
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(), SWEEP_MS);
  const signal = AbortSignal.any([shutdownSignal, Context.current().cancellationSignal, over.signal]);
  const now = startServerClock();
  let state = given;
  try {
    while (!signal.aborted) {
      state = await sweep.look(state, { now: now(), signal });
      onLook();
      await delay(LOOK_EVERY_MS, undefined, { signal });
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    clearTimeout(timer);
  }
  return state;
}

/** Requests that one endpoint may have open in a worker: one that hangs leaves room for the others. */
const MAX_OPEN = 20;
/** Then the server hands it out again, each time later: an endpoint that hangs may have thousands. */
const NO_PLACE_WAIT_MS = 5_000;
const MAX_NO_PLACE_WAIT_MS = 60_000;

/** Delivers where the endpoint has a place left; `open` counts its requests. */
async function inPlace<T>(
  open: Map<string, number>,
  { id, origin }: WebhookDelivery['endpoint'],
  deliver: () => Promise<T>,
): Promise<T> {
  const count = open.get(id) ?? 0;
  if (count >= MAX_OPEN) {
    const waitMs = Math.min(NO_PLACE_WAIT_MS * Context.current().info.attempt, MAX_NO_PLACE_WAIT_MS);
    throw tryLater(
      'WebhookWaits',
      `${origin} has ${count} requests open`,
      'asks again',
      waitMs * (0.5 + Math.random()),
    );
  }
  open.set(id, count + 1);
  try {
    return await deliver();
  } finally {
    const left = open.get(id)! - 1;
    if (left === 0) open.delete(id);
    else open.set(id, left);
  }
}

async function deliverWebhook(dependencies: Dependencies, delivery: WebhookDelivery): Promise<WebhookFate> {
  const { endpoints, onTry } = dependencies;
  const { projectId, eventId, endpoint, body } = delivery;
  // As it is now: a secret may have been exchanged since the last try.
  const named = await endpoints.of(projectId).catch(() => {
    // No try of the receiver: events wait for a good file.
    throw tryLater('WebhookWaits', 'WEBHOOKS_FILE cannot be used: see the log', 'looks again', MAX_NO_PLACE_WAIT_MS);
  });
  const found = named.find(({ id }) => id === endpoint.id);
  if (!found) {
    const of = projectId === null ? 'all projects' : `project ${JSON.stringify(projectId)}`;
    throw notDelivered(`WEBHOOKS_FILE names this address at ${endpoint.origin} no more for ${of}`);
  }
  const tell = (result: WebhookFate | 'failed') => onTry(endpoint.origin, result);
  try {
    const answer = await post({ endpoint: found, eventId, body, way: endpoints.way });
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

/** Ten repetitions within 75 hours; a receiver that is back is not left to wait for more than a day. */
const MAX_TRIES = 11;
const FIRST_WAIT_MS = 30_000;
const WAIT_FACTOR = 3;

/**
 * Counts the try in the attempt's details: attempts that found no place, or whose worker died, were none. A receiver
 * that says when to come again may say later than the next try, never sooner.
 */
function notDelivered(message: string, retryAfterMs: number | null = null): ApplicationFailure {
  const context = Context.current();
  const tries = ((context.info.heartbeatDetails as { tries: number } | undefined)?.tries ?? 0) + 1;
  context.heartbeat({ tries });
  const ownWaitMs = Math.min(FIRST_WAIT_MS * WAIT_FACTOR ** (tries - 1), DAY_MS);
  const failure = ApplicationFailure.create({
    message,
    type: NOT_DELIVERED_FAILURE,
    nonRetryable: tries >= MAX_TRIES,
    nextRetryDelay: Math.max(ownWaitMs, retryAfterMs ?? 0),
  });
  failure.stack = '';
  return failure;
}
