import { describe, expect, test } from 'vitest';
import { interruptionOf, waitingOf, type WaitingRun } from '../../src/workflows/agent-job/waiting.js';

const NOW = Date.parse('2026-01-01T12:00:00.000Z');
const at = (seconds: number) => NOW + seconds * 1_000;
const iso = (seconds: number) => new Date(at(seconds)).toISOString();

const QUIET = { job: null, lastChangeAt: at(-60), settledAt: 0, endedAt: null, notBefore: 0, interruption: null };

function waiting(run: Partial<WaitingRun>) {
  const spec = { lingerMs: 60_000, settleMs: 5_000 };
  return waitingOf({ spec, jobId: 'j', isLingering: false, write: null, polls: polls({}), ...run }, NOW);
}

function polls(known: Partial<WaitingRun['polls']['known']>, nextPollAt: number | null = null): WaitingRun['polls'] {
  return { known: { ...QUIET, ...known }, batchStartedAt: at(-10), nextPollAt };
}

const write = (progress: Partial<NonNullable<WaitingRun['write']>>) => ({
  write: { inDoubt: null, decideBy: null, interruption: null, notBefore: 0, queued: undefined, ...progress },
});
const wait = (what: 'rateLimit' | 'upstream' | 'key') => ({ for: what, since: at(-30), reason: 'said so' });
const person = { kind: 'create', reason: 'no answer', since: iso(-30), lookAfter: iso(90) } as const;

describe('what a run waits for', () => {
  test.each([
    ['the next read, which a batch of polls plans itself', waiting({}), { for: 'poll', since: iso(-10) }],
    ['the next read', waiting({ polls: polls({}, at(30)) }), { for: 'poll', since: iso(-10), until: iso(30) }],
    [
      'a person, for ever',
      waiting(write({ inDoubt: person, interruption: wait('upstream') })),
      { for: 'person', since: iso(-30), reason: 'no answer' },
    ],
    [
      'a person, for a while',
      waiting(write({ inDoubt: person, decideBy: at(60) })),
      { for: 'person', since: iso(-30), until: iso(60), reason: 'no answer' },
    ],
    [
      'the time that a 429 told',
      waiting(write({ interruption: wait('rateLimit'), notBefore: at(40) })),
      { for: 'rateLimit', since: iso(-30), until: iso(40), reason: 'said so' },
    ],
    [
      'a turn after it',
      waiting(write({ interruption: wait('rateLimit'), notBefore: at(-1) })),
      { for: 'rateLimit', since: iso(-30), reason: 'said so' },
    ],
    ['a key', waiting(write({ interruption: wait('key') })), { for: 'key', since: iso(-30), reason: 'said so' }],
    [
      'a connection',
      waiting(write({ interruption: wait('upstream'), notBefore: at(2) })),
      { for: 'upstream', since: iso(-30), until: iso(2), reason: 'said so' },
    ],
    [
      'a read that is of use',
      waiting({ polls: polls({ interruption: wait('rateLimit'), notBefore: at(90) }, at(10)) }),
      { for: 'rateLimit', since: iso(-30), until: iso(90), reason: 'said so' },
    ],
    [
      'an end that counts',
      waiting({ polls: polls({ job: { status: 'completed' }, settledAt: at(3) }) }),
      { for: 'settle', since: iso(-2), until: iso(3) },
    ],
    [
      'a job that goes on',
      waiting({ polls: polls({ job: { status: 'active' }, settledAt: at(3) }) }),
      { for: 'poll', since: iso(-10) },
    ],
    [
      'follow-ups',
      waiting({ polls: polls({ endedAt: at(-20) }), isLingering: true }),
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
  const first = interruptionOf(refused, null, at(0));
  expect(first).toEqual({ for: 'key', since: at(0), reason: 'upstream answered 401' });
  expect(interruptionOf(refused, first, at(9))).toEqual(first);
  const silent = interruptionOf({ kind: 'failed', reason: 'no answer' }, first, at(20));
  expect(silent).toEqual({ for: 'upstream', since: at(20), reason: 'no answer' });
  expect(interruptionOf({ kind: 'unchanged' }, silent, at(30))).toBeNull();
});
