import { describe, expect, test } from 'vitest';
import type { RunData, WriteProgress } from '../../src/workflows/agent-job/run-data.js';
import { readTroubleOf, waitingOf } from '../../src/workflows/agent-job/waiting.js';

const NOW = Date.parse('2026-01-01T12:00:00.000Z');
const at = (seconds: number) => NOW + seconds * 1_000;
const iso = (seconds: number) => new Date(at(seconds)).toISOString();

const QUIET = {
  jobId: 'j',
  job: null,
  lastChangeAt: at(-60),
  settledAt: 0,
  endedAt: null,
  notBefore: 0,
  write: null,
  unknown: null,
  decideBy: null,
};

function waiting(data: object, run: object = {}) {
  const spec = { lingerMs: 60_000, settleMs: 5_000 };
  const state = { spec, isLingering: false, lastWatchAt: at(-10), nextReadAt: null, ...run };
  return waitingOf({ ...state, data: { ...QUIET, ...data } as unknown as RunData }, NOW);
}

const write = (progress: Partial<WriteProgress>) => ({ write: { notBefore: 0, ...progress } });
const wait = (what: 'rateLimit' | 'upstream' | 'key') => ({ for: what, since: at(-30), reason: 'said so' });
const person = { kind: 'create', reason: 'no answer', since: iso(-30) };

describe('what a run waits for', () => {
  test.each([
    ['the next read, which a watch plans itself', waiting({}), { for: 'poll', since: iso(-10) }],
    ['the next read', waiting({}, { nextReadAt: at(30) }), { for: 'poll', since: iso(-10), until: iso(30) }],
    [
      'a person, for ever',
      waiting({ unknown: person, ...write({ wait: wait('upstream') }) }),
      { for: 'person', since: iso(-30), reason: 'no answer' },
    ],
    [
      'a person, for a while',
      waiting({ unknown: person, decideBy: at(60) }),
      { for: 'person', since: iso(-30), until: iso(60), reason: 'no answer' },
    ],
    [
      'the time that a 429 told',
      waiting(write({ wait: wait('rateLimit'), notBefore: at(40) })),
      { for: 'rateLimit', since: iso(-30), until: iso(40), reason: 'said so' },
    ],
    [
      'a turn after it',
      waiting(write({ wait: wait('rateLimit'), notBefore: at(-1) })),
      { for: 'rateLimit', since: iso(-30), reason: 'said so' },
    ],
    ['a key', waiting(write({ wait: wait('key') })), { for: 'key', since: iso(-30), reason: 'said so' }],
    [
      'a connection',
      waiting(write({ wait: wait('upstream'), notBefore: at(2) })),
      { for: 'upstream', since: iso(-30), until: iso(2), reason: 'said so' },
    ],
    [
      'a read that is of use',
      waiting({ readTrouble: wait('rateLimit'), notBefore: at(90) }, { nextReadAt: at(10) }),
      { for: 'rateLimit', since: iso(-30), until: iso(90), reason: 'said so' },
    ],
    [
      'an end that counts',
      waiting({ job: { status: 'completed' }, settledAt: at(3) }),
      { for: 'settle', since: iso(-2), until: iso(3) },
    ],
    ['a job that goes on', waiting({ job: { status: 'active' }, settledAt: at(3) }), { for: 'poll', since: iso(-10) }],
    [
      'follow-ups',
      waiting({ endedAt: at(-20) }, { isLingering: true }),
      { for: 'linger', since: iso(-20), until: iso(40) },
    ],
    ['nothing: the write leaves now', waiting(write({})), null],
    ['nothing: the create leaves now', waiting({ jobId: null }), null],
  ])('%s', (_, actual, expected) => {
    expect(actual).toEqual(expected);
  });
});

test('trouble with reads keeps its time while it is the same, and ends with a read of use', () => {
  const refused = { kind: 'failed', reason: 'upstream answered 401', waitsFor: 'key' } as const;
  const first = readTroubleOf(refused, null, at(0));
  expect(first).toEqual({ for: 'key', since: at(0), reason: 'upstream answered 401' });
  expect(readTroubleOf(refused, first, at(9))).toEqual(first);
  const silent = readTroubleOf({ kind: 'failed', reason: 'no answer' }, first, at(20));
  expect(silent).toEqual({ for: 'upstream', since: at(20), reason: 'no answer' });
  expect(readTroubleOf({ kind: 'unchanged' }, silent, at(30))).toBeNull();
});
