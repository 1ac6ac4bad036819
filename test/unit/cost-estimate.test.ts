import { describe, expect, test } from 'vitest';
import { forecastJob } from '../../src/agent-job/job-forecast.js';
import { addCosts, estimateCost, type CostInput } from '../../src/cli/cost-estimate.js';

type Event = CostInput['runs'][number]['events'][number];

const at = (seconds: number) => ({ eventTime: { seconds, nanos: 0 } });
const json = (value: unknown) => ({ payloads: [{ data: new TextEncoder().encode(JSON.stringify(value)) }] });
const PLAN = { minMs: 10_000, maxMs: 10_000, ratio: 0 };
const LEASE = { heartbeatTimeout: { seconds: 50, nanos: 0 } };

const started: Event = { eventId: 1, ...at(0), workflowExecutionStartedEventAttributes: {} };

function polled(eventId: number, seconds: number, more: object = {}): Event {
  const input = json({ plan: PLAN, lastChangeAt: 0, maxReads: 60 });
  const activityTaskScheduledEventAttributes = {
    activityId: String(eventId),
    activityType: { name: 'pollJob' },
    input,
    ...more,
  };
  return { eventId, ...at(seconds), activityTaskScheduledEventAttributes };
}

function costOf(events: Event[], more: Partial<CostInput> = {}) {
  return estimateCost({ runs: [{ events, bytes: 100 }], pending: [], ...more });
}

describe('the estimate of a batch of polls', () => {
  test('takes reads and heartbeats from its result', () => {
    const { reads, actions } = costOf([
      started,
      polled(2, 0, LEASE),
      { eventId: 3, ...at(0), activityTaskStartedEventAttributes: { scheduledEventId: 2, attempt: 1 } },
      {
        eventId: 4,
        ...at(300),
        activityTaskCompletedEventAttributes: { scheduledEventId: 2, result: json({ reads: 30, heartbeats: 9 }) },
      },
    ]);
    expect({ reads, ...actions }).toMatchObject({ reads: 30, activities: 1, activityRetries: 0, heartbeats: 9 });
  });

  test.each([
    { attempt: 7, reads: 7, heartbeats: 0 },
    { attempt: 4, reads: 30, heartbeats: 3 },
    { attempt: 4, reads: 5, heartbeats: 1 },
  ])('without a lease, $reads reads in $attempt attempts told each other $heartbeats times', (batch) => {
    const { attempt, reads, heartbeats } = batch;
    const { actions } = costOf([
      started,
      polled(2, 0),
      { eventId: 3, ...at(0), activityTaskStartedEventAttributes: { scheduledEventId: 2, attempt } },
      { eventId: 4, ...at(70), activityTaskCompletedEventAttributes: { scheduledEventId: 2, result: json({ reads }) } },
    ]);
    expect(actions).toMatchObject({ activities: 1, activityRetries: attempt - 1, heartbeats });
  });

  test('that was cut short goes by the plan in its input, until the cut', () => {
    const cut = (seconds: number): Event => ({
      eventId: 3,
      ...at(seconds),
      activityTaskCancelRequestedEventAttributes: { scheduledEventId: 2 },
    });
    const leased = costOf([started, polled(2, 0, LEASE), cut(105)]);
    expect({ reads: leased.reads, ...leased.actions }).toMatchObject({ reads: 11, activityRetries: 0, heartbeats: 3 });
    const attempts = costOf([started, polled(2, 0), cut(105)]);
    expect({ reads: attempts.reads, ...attempts.actions }).toMatchObject({
      reads: 11,
      activityRetries: 10,
      heartbeats: 0,
    });
  });

  test('that went with a terminated workflow ended with it', () => {
    const { reads } = costOf([started, polled(2, 0, LEASE), { eventId: 3, ...at(25) }], { readAt: 9_000_000 });
    expect(reads).toBe(3);
  });

  test('that is under way goes by what its last heartbeat told', () => {
    const pending = [{ id: '2', attempt: 1, details: { heartbeats: 4, polls: 14 } }];
    const { reads, actions } = costOf([started, polled(2, 0, LEASE)], { pending, readAt: 150_000 });
    expect({ reads, ...actions }).toMatchObject({ reads: 16, activityRetries: 0, heartbeats: 4 });
    const retried = costOf([started, polled(2, 0)], { pending: [{ id: '2', attempt: 5 }], readAt: 150_000 });
    expect({ reads: retried.reads, ...retried.actions }).toMatchObject({ reads: 5, activityRetries: 4 });
  });

  test('whose input a codec hides counts one read', () => {
    const hidden = { input: { payloads: [{ data: new Uint8Array([1, 2, 3]) }] }, ...LEASE };
    expect(costOf([started, polled(2, 0, hidden)]).reads).toBe(1);
  });
});

test('a message between a job and its queue counts once', () => {
  const turn: Event = {
    eventId: 2,
    ...at(1),
    workflowExecutionSignaledEventAttributes: { externalWorkflowExecution: { workflowId: 'request-queue/p/create' } },
  };
  const sent: Event = { eventId: 2, ...at(1), signalExternalWorkflowExecutionInitiatedEventAttributes: {} };
  const joined: Event = { eventId: 3, ...at(1), workflowExecutionSignaledEventAttributes: {} };
  const job = costOf([started, turn]);
  const queue = costOf([started, joined, sent], { workflow: 'requestQueue' });
  expect(job.billableActions).toBe(2);
  expect(queue.billableActions).toBe(0);
  expect(addCosts(job, queue)).toMatchObject({ runs: 2, historyEvents: 5, historyBytes: 200, billableActions: 2 });
});

test('a child workflow costs its parent one action more than any other start', () => {
  const child: Event = { eventId: 2, ...at(1), startChildWorkflowExecutionInitiatedEventAttributes: {} };
  expect(costOf([started, child], { workflow: 'recurringJob' }).actions).toMatchObject({
    starts: 1,
    childWorkflows: 1,
  });
});

describe('the forecast', () => {
  const DEFAULT = { minMs: 2_000, maxMs: 60_000, ratio: 0.1 };
  const HOUR = 3_600_000;

  test('of a day by the default plan stays below 450 actions', () => {
    const day = forecastJob({ lengthMs: 24 * HOUR, plan: DEFAULT, followUps: 0, mode: 'lease' });
    expect(day.billableActions).toBeLessThanOrEqual(450);
  });

  test('adds up many days as it adds up each batch', () => {
    const of = (hours: number) =>
      forecastJob({
        lengthMs: hours * HOUR,
        plan: { minMs: 60_000, maxMs: 60_000, ratio: 0 },
        followUps: 0,
        mode: 'attempts',
      });
    expect(of(1_000).reads).toBe(60_001);
    expect(of(999.5).reads).toBe(59_971);
  });

  test('lets each follow-up start the plan anew', () => {
    const none = forecastJob({ lengthMs: HOUR, plan: DEFAULT, followUps: 0, mode: 'attempts' });
    const two = forecastJob({ lengthMs: HOUR, plan: DEFAULT, followUps: 2, mode: 'attempts' });
    expect(two.reads).toBeGreaterThan(none.reads);
    expect(two.parts).toContainEqual({
      part: 'follow-ups: signal, message, fence, two changes of the phase',
      count: 2,
      actionsEach: 5,
    });
  });
});
