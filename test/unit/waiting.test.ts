import { describe, expect, test } from 'vitest';
import type { EndCandidate } from '../../src/agent-job/ends.js';
import { firstPollData, pollInterruption } from '../../src/workflows/agent-job/poll-findings.js';
import { waitingOf } from '../../src/workflows/agent-job/job-state.js';
import { beginWrite, type Interruption, type Write } from '../../src/workflows/agent-job/write.js';
import { record } from '../support/scripted-upstream.js';

const NOW = Date.parse('2026-01-01T12:00:00.000Z');
const at = (seconds: number) => NOW + seconds * 1_000;
const iso = (seconds: number) => new Date(at(seconds)).toISOString();

const QUIET = {
  ...firstPollData(at(-60)),
  job: record(),
};
/** A poll first showed `completed` two seconds ago. */
const completed = (hasStood: boolean): EndCandidate => ({ end: 'completed', prLink: null, since: at(-2), hasStood });

function waiting(run: object) {
  const quiet = { spec: { settleMs: 5_000 }, jobId: 'j', write: null, polls: polls({}) };
  return waitingOf({ ...quiet, ...run } as unknown as Parameters<typeof waitingOf>[0], NOW);
}

function polls(known: object, nextPollAt: number | null = null) {
  return { known: { ...QUIET, ...known }, batchStartedAt: at(-10), nextPollAt };
}

const ready = beginWrite({ kind: 'create', askedAt: at(-60), requiresConfirmation: false });
const write = (state: Write['state']) => ({ write: { ...ready, state } });
const inDoubt = (decideBy: number | null) => write({ kind: 'inDoubt', inDoubt: person, decideBy });
const held = (interruption: Interruption, notBefore = 0) =>
  write({ kind: 'waiting', interruption, heldAt: at(-30), notBefore });
const wait = (what: 'rateLimit' | 'upstream' | 'key') => ({ for: what, since: at(-30), reason: 'said so' });
const person = { kind: 'create', reason: 'no answer', since: iso(-30), lookAfter: iso(90) } as const;

describe('what a run waits for', () => {
  test.each([
    ['the next read, which a batch of polls plans itself', waiting({}), { for: 'poll', since: iso(-10) }],
    ['the next read', waiting({ polls: polls({}, at(30)) }), { for: 'poll', since: iso(-10), until: iso(30) }],
    ['a person, for ever', waiting(inDoubt(null)), { for: 'person', since: iso(-30), reason: 'no answer' }],
    [
      'a person, for a while',
      waiting(inDoubt(at(60))),
      { for: 'person', since: iso(-30), until: iso(60), reason: 'no answer' },
    ],
    [
      'the time that a 429 gave',
      waiting(held(wait('rateLimit'), at(40))),
      { for: 'rateLimit', since: iso(-30), until: iso(40), reason: 'said so' },
    ],
    [
      'a turn after it',
      waiting(held(wait('rateLimit'), at(-1))),
      { for: 'rateLimit', since: iso(-30), reason: 'said so' },
    ],
    ['a key', waiting(held(wait('key'))), { for: 'key', since: iso(-30), reason: 'said so' }],
    [
      'a connection',
      waiting(held(wait('upstream'), at(2))),
      { for: 'upstream', since: iso(-30), until: iso(2), reason: 'said so' },
    ],
    [
      'a read that is of use',
      waiting({ polls: polls({ interruption: wait('rateLimit'), notBefore: at(90) }, at(10)) }),
      { for: 'rateLimit', since: iso(-30), until: iso(90), reason: 'said so' },
    ],
    [
      'an end that must stand',
      waiting({ polls: polls({ candidate: completed(false) }, at(1)) }),
      { for: 'settle', since: iso(-2), until: iso(3) },
    ],
    [
      'an end that must stand, and was taken back before',
      waiting({ polls: polls({ candidate: completed(false), unrest: { since: at(-20), changes: 3 } }) }),
      {
        ...{ for: 'settle', since: iso(-2), until: iso(3) },
        reason: `since ${iso(-20)} the upstream has changed what it shows of the end 3 times`,
      },
    ],
    [
      'a read of use while an end stands',
      waiting({ polls: polls({ candidate: completed(false), interruption: wait('key') }, at(10)) }),
      { for: 'key', since: iso(-30), until: iso(10), reason: 'said so' },
    ],
    [
      'a write beside an end',
      waiting({ polls: polls({ candidate: completed(true) }) }),
      { for: 'poll', since: iso(-10) },
    ],
    [
      'a status that ends something',
      waiting({ polls: polls({ job: record({ status: 'cancelled' }), isUnknownStatus: true }) }),
      {
        ...{ for: 'poll', since: iso(-10) },
        reason: 'the upstream says "cancelled", a status that its interface does not name',
      },
    ],
    [
      'a job that is found again',
      waiting({ polls: polls({ notFound: { count: 3, since: at(-9) } }) }),
      { for: 'poll', since: iso(-10), reason: 'the upstream answered 404, 3 in a row' },
    ],
    ['nothing: the write leaves now', waiting(write({ kind: 'ready' })), null],
    ['nothing: the create leaves now', waiting({ jobId: null }), null],
  ])('%s', (_, actual, expected) => {
    expect(actual).toEqual(expected);
  });
});

test('trouble with reads keeps its time while it is the same, and ends with a read of use', () => {
  const refused = { kind: 'failed', reason: 'upstream answered 401', waitsFor: 'key' } as const;
  const first = pollInterruption(refused, null, at(0));
  expect(first).toEqual({ for: 'key', since: at(0), reason: 'upstream answered 401' });
  expect(pollInterruption(refused, first, at(9))).toEqual(first);
  const silent = pollInterruption({ kind: 'failed', reason: 'no answer' }, first, at(20));
  expect(silent).toEqual({ for: 'upstream', since: at(20), reason: 'no answer' });
  expect(pollInterruption({ kind: 'unchanged' }, silent, at(30))).toBeNull();
});
