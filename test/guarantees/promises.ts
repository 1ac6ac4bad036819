/**
 * The promise table: fault × moment × policy → what the caller sees and how many requests the upstream got. Each row is
 * a test (promises.test.ts), and docs/guarantees.md shows exactly these rows.
 */
import type { UnknownOutcomePolicy } from '../../src/contract.js';
import type { FaultRule } from '../../src/testing.js';
import { markdownTable } from './markdown-table.js';

type Write = 'create' | 'follow-up';
/** What the fault does to the request, before the policy matters. */
type Fate = 'not sent' | 'not taken' | 'no key' | 'refused' | 'unknown' | 'taken' | 'forgotten';

interface Fault {
  fault: string;
  moment: string;
  /** The sandbox's rule, which injects its fault once; null where Temporal was restored from a backup. */
  rule: FaultRule | null;
  fate: Record<Write, Fate>;
  /** Whether the write took effect all the same. */
  isTaken: boolean;
}

export interface Promise_ extends Fault {
  write: Write;
  policy: UnknownOutcomePolicy | 'any';
  sees: string;
  /** Requests that reached the upstream, the first, faulty one included. */
  requests: number;
  /** How many jobs or messages exist in the end. */
  effects: number;
}

const both = (fate: Fate): Record<Write, Fate> => ({ create: fate, 'follow-up': fate });
const fault = (
  name: string,
  moment: string,
  rule: FaultRule | null,
  fate: Fate | Record<Write, Fate>,
  isTaken = false,
): Fault => ({
  fault: name,
  moment,
  rule,
  fate: typeof fate === 'string' ? both(fate) : fate,
  isTaken,
});
/** A spoilt answer to a taken write: proof enough for a message, not for a create. */
const SPOILT: Record<Write, Fate> = { create: 'unknown', 'follow-up': 'taken' };

const FAULTS: Fault[] = [
  fault('connection reset', 'after the headers', { kind: 'reset', at: 'headers' }, 'not sent'),
  fault('connection reset', 'within the request body', { kind: 'reset', at: 'body' }, 'not sent'),
  fault(
    'connection reset',
    'after the request, not accepted',
    { kind: 'reset', at: 'request', effect: 'before' },
    'unknown',
  ),
  fault(
    'connection reset',
    'after the request, accepted',
    { kind: 'reset', at: 'request', effect: 'after' },
    'unknown',
    true,
  ),
  fault('connection reset', 'within the response', { kind: 'reset', at: 'response', effect: 'after' }, SPOILT, true),
  fault('no response', 'not accepted', { kind: 'hang', effect: 'before' }, 'unknown'),
  fault('no response', 'accepted', { kind: 'hang', effect: 'after' }, 'unknown', true),
  fault('response stalls', 'after its headers', { kind: 'stallBody', effect: 'after' }, SPOILT, true),
  fault('response cut off', 'within its body', { kind: 'truncated', effect: 'after' }, SPOILT, true),
  fault('response is not JSON', 'accepted', { kind: 'malformed', effect: 'after' }, SPOILT, true),
  fault('response is empty', 'accepted', { kind: 'empty', effect: 'after' }, SPOILT, true),
  fault('response without an id', 'accepted', { kind: 'noId', effect: 'after' }, SPOILT, true),
  fault('endless response', 'accepted', { kind: 'oversized', effect: 'after' }, SPOILT, true),
  fault('500', 'not accepted', { kind: 'status', status: 500, effect: 'before' }, 'unknown'),
  fault('500', 'accepted', { kind: 'status', status: 500, effect: 'after' }, 'unknown', true),
  fault('408', 'not accepted', { kind: 'status', status: 408, effect: 'before' }, 'unknown'),
  fault('529, vouched for', 'not accepted', { kind: 'status', status: 529, effect: 'before' }, 'not taken'),
  fault('429', 'with Retry-After', { kind: 'status', status: 429, retryAfter: 1 }, 'not taken'),
  fault('429', 'with a date', { kind: 'status', status: 429, retryAfterDateMs: 1_500 }, 'not taken'),
  fault('429', 'with an invalid value', { kind: 'status', status: 429, retryAfter: 'soon' }, 'not taken'),
  fault('400', '', { kind: 'status', status: 400, body: { error: 'no such branch' } }, 'refused'),
  fault('401', 'no newer key', { kind: 'status', status: 401 }, 'no key'),
  fault('403', '', { kind: 'status', status: 403 }, 'refused'),
  fault('303', 'accepted', { kind: 'status', status: 303, effect: 'after' }, 'unknown', true),
  fault('redirect', 'never followed', { kind: 'redirect' }, 'refused'),
  fault('Temporal restored', 'before the time set', null, 'forgotten'),
];

/** The 5xx status for which the operator vouches in these tests. */
export const VOUCHED_STATUS = 529;

export const PROMISES: Promise_[] = (['create', 'follow-up'] as const).flatMap((write) =>
  FAULTS.flatMap((entry) => promisesOf(write, entry)),
);

function promisesOf(write: Write, entry: Fault): Promise_[] {
  const row = (policy: Promise_['policy'], sees: string, requests: number, effects: number) => ({
    ...entry,
    write,
    policy,
    sees,
    requests,
    effects,
  });
  switch (entry.fate[write]) {
    case 'taken':
      return [row('any', 'the follow-up as `sent`: a 2xx is proof', 1, 1)];
    case 'not sent':
      return [row('any', 'only a delay; `needsAttention` where the last byte had already left', 2, 1)];
    case 'not taken':
      return [row('any', 'only a delay: sent again after the wait', 2, 1)];
    case 'no key':
      return [row('any', 'only a delay: `waiting.for` is `key`; sent again once the key is accepted', 2, 1)];
    case 'refused':
      return [row('any', write === 'create' ? 'failure `CreateRejected`' : 'follow-up `rejected`', 1, 0)];
    case 'forgotten':
      return [row('any', '`needsAttention` before anything is sent; a person says `retry`', 1, 1)];
    case 'unknown':
      return [
        entry.isTaken
          ? row('ask', `\`needsAttention\`; a person says \`${write === 'create' ? 'adopt' : 'delivered'}\``, 1, 1)
          : row('ask', '`needsAttention`; a person says `retry`', 2, 1),
        row('fail', 'failure `UnknownOutcome`', 1, entry.isTaken ? 1 : 0),
        row('retry', 'only a delay: sent again', 2, entry.isTaken ? 2 : 1),
      ];
  }
}

const COLUMNS = ['write', 'fault', 'moment', 'policy', 'sees', 'requests', 'effects'] as const;
const HEADS = ['write', 'fault', 'moment', 'policy', 'what the caller sees', 'requests', 'accepted'];

/** The rows as Markdown. */
export function promiseTable(): string {
  const rows = PROMISES.map((promise) => COLUMNS.map((name) => String(promise[name])));
  return markdownTable(HEADS, rows);
}
