import { defaultPayloadConverter } from '@temporalio/common';
import type { Client } from '@temporalio/client';
import { expect, test } from 'vitest';
import { failedPoll } from '../../src/client/agent-job/call-job.js';

const client = {
  options: { loadedDataConverter: { payloadCodecs: [], payloadConverter: defaultPayloadConverter } },
} as unknown as Client;

const POLL = { for: 'poll', since: '2026-01-01T00:00:00.000Z' } as const;
const [SCHEDULED, STARTED] = [1, 2];

/** What is told of a pending poll. */
function told(message: string, figures: unknown, { state = SCHEDULED, name = 'pollJob' } = {}) {
  const payloads = figures === undefined ? [] : [defaultPayloadConverter.toPayload(figures)];
  const times = { lastAttemptCompleteTime: { seconds: 1_000 }, nextAttemptScheduleTime: { seconds: 1_300 } };
  const poll = { activityType: { name }, state, lastFailure: { message }, heartbeatDetails: { payloads }, ...times };
  return failedPoll(client, { pendingActivities: [poll] } as unknown as Parameters<typeof failedPoll>[1], POLL);
}

const REFUSED = 'connection refused, 7 times in a row, next poll in 300 s';
const FIGURES = { failures: 7, notFound: 0, further: 0, unread: 0 };

test('a poll that failed tells why, and when the next one is due', async () => {
  expect(await told(REFUSED, FIGURES)).toEqual({
    for: 'upstream',
    since: '1970-01-01T00:16:40.000Z',
    until: '1970-01-01T00:21:40.000Z',
    reason: 'connection refused',
  });
});

test.each([
  ['upstream answered 503, next poll in 2 s', 'upstream', 'upstream answered 503'],
  ['upstream answered 401, 2 times in a row, next poll in 9 s', 'key', 'upstream answered 401'],
  ['upstream answered 429, next poll in 1 s', 'rateLimit', 'upstream answered 429'],
])('%s', async (message, what, reason) => {
  expect(await told(message, { ...FIGURES, failures: 1 })).toMatchObject({ for: what, reason });
});

test.each([
  ['nothing is wrong', 'nothing is wrong: the job is active, next poll in 300 s', { ...FIGURES, failures: 0 }, {}],
  ['the first read of all was healthy', 'nothing is wrong: the job is active, next poll in 5 s', undefined, {}],
  ['an answer 404', 'upstream answered 404, 7 times in a row, next poll in 9 s', { ...FIGURES, notFound: 6 }, {}],
  ['an attempt is under way', REFUSED, FIGURES, { state: STARTED }],
  ['another release words it otherwise', 'no answer', FIGURES, {}],
  ['another release saves other figures', REFUSED, { fails: 7 }, {}],
  ['figures of another kind', REFUSED, 'seven', {}],
  ['nothing is saved', REFUSED, undefined, {}],
  ['another activity', REFUSED, FIGURES, { name: 'awaitKey' }],
])('it waits for its poll where %s', async (_, message, figures, pending) => {
  expect(await told(message, figures, pending)).toBe(POLL);
});
