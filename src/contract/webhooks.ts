/** The contract of webhooks: the events, and the workflows that find and deliver them. See docs/http.md. */
import { encodeId } from './shared.js';

/** Workflow types. */
export const WEBHOOK_SWEEP_WORKFLOW = 'webhookSweep';
export const WEBHOOK_DELIVERY_WORKFLOW = 'webhookDelivery';

/** The task queue of the activities of webhooks, next to the jobs' own queue. */
export function webhookTaskQueue(taskQueue: string): string {
  return `${taskQueue}-webhooks`;
}

/** The workflow that finds the events of a task queue's jobs; there is one. */
export function webhookSweepId(taskQueue: string): string {
  return `webhook-sweep/${encodeId(taskQueue)}`;
}

/** The workflow that delivers an event to an endpoint. */
export function webhookDeliveryId(eventId: string, endpointId: string): string {
  return `webhook/${eventId}/${endpointId}`;
}

/** Values of an event's `type`. */
export const WEBHOOK_EVENTS = ['agent_job.ended', 'agent_job.needs_attention', 'visitor_export.ended'] as const;
export type WebhookEventType = (typeof WEBHOOK_EVENTS)[number];

/** `type` of the failure of a delivery that was not taken. */
export const NOT_DELIVERED_FAILURE = 'WebhookNotDelivered';

/** The only argument of `webhookDelivery`: built once, whatever is tried. */
export interface WebhookDelivery {
  /** The header `webhook-id`. */
  eventId: string;
  type: WebhookEventType;
  projectId: string | null;
  endpoint: {
    /** A hash of its URL, which may hold a secret. */
    id: string;
    /** As `https://example.com`. */
    origin: string;
  };
  /** What is sent, byte for byte. */
  body: string;
}

/** How a delivery ended that did not fail: a receiver that is gone (410) wants no more tries. */
export type WebhookFate = 'delivered' | 'gone';

/**
 * How far the sweep is; its only argument, null where it is the first. Workers of two releases go on from each other's:
 * each keeps the fields that it does not know, and none may change what another means.
 */
export interface WebhookSweepState {
  /** What ended before, in milliseconds of Unix time, is announced. */
  endsFrom: number;
}

/** The activities of both workflows. */
export interface WebhookActivities {
  /** Finds and announces events for a minute. */
  sweepEvents: (state: WebhookSweepState) => Promise<WebhookSweepState>;
  /** Sends the request; fails with `WebhookNotDelivered`. */
  deliverWebhook: (delivery: WebhookDelivery) => Promise<WebhookFate>;
}
