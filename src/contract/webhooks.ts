/**
 * The contract of webhooks: the events, the workflows that find and deliver them, and when a delivery is tried again or
 * given up. See docs/http.md.
 */
import { DAY_MS, encodeId } from './shared.js';

/** The workflow type that finds events. */
export const WEBHOOK_SWEEP_WORKFLOW = 'webhookSweep';
/** The workflow type that delivers one event to one endpoint. */
export const WEBHOOK_DELIVERY_WORKFLOW = 'webhookDelivery';

/** The task queue of the activities of webhooks, next to the jobs' own queue. */
export function webhookTaskQueue(taskQueue: string): string {
  return `${taskQueue}-webhooks`;
}

/** The id of the one workflow that finds the events of a task queue's jobs. */
export function webhookSweepId(taskQueue: string): string {
  return `webhook-sweep/${encodeId(taskQueue)}`;
}

/** Values of an event's `type`. */
export const WEBHOOK_EVENTS = ['agent_job.ended', 'agent_job.needs_attention', 'visitor_export.ended'] as const;
/** What a webhook is about. */
export type WebhookEventType = (typeof WEBHOOK_EVENTS)[number];

/** The only argument of `webhookDelivery`: built once, and the same at each try. */
export interface WebhookDelivery {
  /** The header `webhook-id`. */
  eventId: string;
  projectId: string | null;
  /** `id` is a hash of the URL, which may hold a secret. `origin` is as in `https://example.com`. */
  endpoint: { id: string; origin: string };
  /** The bytes of each request. */
  body: string;
}

/** The tries of a delivery: ten repetitions within 75 hours. A receiver that is back waits for a day at most. */
export const WEBHOOK_RETRY = {
  initialInterval: 30_000,
  backoffCoefficient: 3,
  maximumInterval: DAY_MS,
  maximumAttempts: 11,
} as const;

/** How a delivery ended that did not fail. A receiver that is `gone` (410) wants no more tries. */
export type WebhookOutcome = 'delivered' | 'gone';

/** The only argument of `webhookSweep`, and its memo: the ends before `endsFrom` (Unix time, ms) have deliveries. */
export interface WebhookSweepState {
  endsFrom: number;
}

/** The activities of both workflows. */
export interface WebhookActivities {
  /** Finds events for a minute, and starts their deliveries. */
  sweepEvents: (state: WebhookSweepState) => Promise<WebhookSweepState>;
  /** Sends the request; fails if the receiver did not take it. */
  deliverWebhook: (delivery: WebhookDelivery) => Promise<WebhookOutcome>;
}
