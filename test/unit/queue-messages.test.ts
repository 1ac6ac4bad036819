import { expect, test } from 'vitest';
import { parseJoin, parseReport } from '../../src/agent-job/queue-messages.js';

const REPORT = { turn: null, outcome: 'unsent', at: 1 };
const JOIN = { workflowId: 'w', priority: 3, askedAt: 1 };

test('any number may be sent where a message says so beside no number, and nothing else is read into it', () => {
  for (const [facts, read] of [
    [
      { perHour: null, isUnlimited: true },
      { perHour: null, isUnlimited: true },
    ],
    [{ perHour: null }, { perHour: null }],
    [{ perHour: null, isUnlimited: false }, { perHour: null }],
    [{ perHour: null, isUnlimited: 'yes' }, { perHour: null }],
    [{ perHour: 2, isUnlimited: true }, { perHour: 2 }],
    [{ isUnlimited: true }, {}],
  ]) {
    expect(parseReport({ ...REPORT, ...facts })).toEqual({ ...REPORT, ...read });
    expect(parseJoin({ ...JOIN, ...facts })).toEqual({ ...JOIN, requests: 1, ...read });
  }
});

test('of what a newer worker sends, only what is not known here is left out', () => {
  for (const perHour of [0, 'many', { mornings: 3 }]) {
    expect(parseJoin({ ...JOIN, perHour, color: 'red' })).toEqual({ ...JOIN, requests: 1 });
  }
  const report = { ...REPORT, outcome: 'postponed' };
  expect(parseJoin({ ...JOIN, report })).toEqual({ ...JOIN, requests: 1, report: { ...REPORT, outcome: 'other' } });
});
