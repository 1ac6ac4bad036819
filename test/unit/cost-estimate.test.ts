import { describe, expect, test } from 'vitest';
import {
  addCosts,
  estimateCost,
  type CostEvent,
  type CostedRun,
  type CostedWorkflow,
} from '../../src/cli/cost-estimate.js';

const at = (seconds: number) => ({ eventTime: { seconds, nanos: 0 } });
const json = (value: unknown) => ({ payloads: [{ data: new TextEncoder().encode(JSON.stringify(value)) }] });
const LEASE = { heartbeatTimeout: { seconds: 50, nanos: 0 } };

const started = { eventId: 1, ...at(0), workflowExecutionStartedEventAttributes: {} };

function polled(eventId: number, seconds: number, more: object = {}): object {
  const activityTaskScheduledEventAttributes = {
    activityId: String(eventId),
    activityType: { name: 'pollJob' },
    ...more,
  };
  return { eventId, ...at(seconds), activityTaskScheduledEventAttributes };
}

function costOf(events: object[], pending: CostedRun['pending'] = [], workflow: CostedWorkflow = 'agentJob') {
  return estimateCost(workflow, [{ events: events as CostEvent[], bytes: 100, pending }]);
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

  test('that was cut short renewed its lease until the cut, or was an attempt for each read', () => {
    const cut = { eventId: 4, ...at(105), activityTaskCancelRequestedEventAttributes: { scheduledEventId: 2 } };
    const leased = costOf([started, polled(2, 0, LEASE), cut]);
    expect({ reads: leased.reads, ...leased.actions }).toMatchObject({ reads: 1, activityRetries: 0, heartbeats: 3 });
    const begun = { eventId: 3, ...at(0), activityTaskStartedEventAttributes: { scheduledEventId: 2, attempt: 7 } };
    const attempts = costOf([started, polled(2, 0), begun, cut]);
    expect({ reads: attempts.reads, ...attempts.actions }).toMatchObject({
      reads: 7,
      activityRetries: 6,
      heartbeats: 0,
    });
  });

  test('that went with a terminated workflow ended with it', () => {
    const { actions } = costOf([started, polled(2, 0, LEASE), { eventId: 3, ...at(40) }]);
    expect(actions.heartbeats).toBe(1);
  });

  test('that is under way goes by what its last heartbeat told', () => {
    const pending = [{ id: '2', attempt: 1, details: { heartbeats: 4, polls: 14 } }];
    const { reads, actions } = costOf([started, polled(2, 0, LEASE)], pending);
    expect({ reads, ...actions }).toMatchObject({ reads: 14, activityRetries: 0, heartbeats: 4 });
    const retried = costOf([started, polled(2, 0)], [{ id: '2', attempt: 5 }]);
    expect({ reads: retried.reads, ...retried.actions }).toMatchObject({ reads: 5, activityRetries: 4 });
  });

  test('whose result a codec hides counts one read', () => {
    const result = { payloads: [{ data: new Uint8Array([1, 2, 3]) }] };
    const ended = { eventId: 3, ...at(9), activityTaskCompletedEventAttributes: { scheduledEventId: 2, result } };
    expect(costOf([started, polled(2, 0, LEASE), ended]).reads).toBe(1);
  });
});

test('a message between a job and its queue counts once', () => {
  const turn = {
    eventId: 2,
    ...at(1),
    workflowExecutionSignaledEventAttributes: { externalWorkflowExecution: { workflowId: 'request-queue/p/create' } },
  };
  const sent = { eventId: 2, ...at(1), signalExternalWorkflowExecutionInitiatedEventAttributes: {} };
  const joined = { eventId: 3, ...at(1), workflowExecutionSignaledEventAttributes: {} };
  const job = costOf([started, turn]);
  const queue = costOf([started, joined, sent], [], 'requestQueue');
  expect(job.billableActions).toBe(2);
  expect(queue.billableActions).toBe(0);
  expect(addCosts(job, queue)).toMatchObject({ runs: 2, historyEvents: 5, historyBytes: 200, billableActions: 2 });
});

test('a child workflow costs its parent one action more than any other start', () => {
  const child = { eventId: 2, ...at(1), startChildWorkflowExecutionInitiatedEventAttributes: {} };
  expect(costOf([started, child], [], 'recurringJob').actions.starts).toBe(2);
});
