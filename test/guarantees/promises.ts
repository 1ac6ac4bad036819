/**
 * The promise table: fault × moment × policy → what the caller sees and how many requests the upstream got. Each row is
 * a test (promises.test.ts), and docs/promises.md shows exactly these rows. The tests of its other rows are in
 * `held-by.ts`.
 */
import type { UnknownOutcomePolicy } from '../../src/contract.js';
import type { FaultRule } from '../../src/testing.js';
import { markdownTable } from './markdown-table.js';

type Write = 'create' | 'follow-up';
/** What the fault does to the request, before the policy matters. */
type Outcome =
  | 'not sent'
  | 'not taken'
  | 'not known yet'
  | 'no key'
  | 'blocked'
  | 'refused'
  | 'unknown'
  /** In doubt, and by its answer carried out: policy `retry` asks a person, too. */
  | 'carried out'
  | 'taken'
  | 'forgotten';

interface Fault {
  fault: string;
  moment: string;
  /** The sandbox's rule, which injects its fault once; null if Temporal was restored from a backup. */
  rule: FaultRule | null;
  outcome: Record<Write, Outcome>;
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

const both = (outcome: Outcome): Record<Write, Outcome> => ({ create: outcome, 'follow-up': outcome });
const fault = (
  name: string,
  moment: string,
  rule: FaultRule | null,
  outcome: Outcome | Record<Write, Outcome>,
  isTaken = false,
): Fault => ({
  fault: name,
  moment,
  rule,
  outcome: typeof outcome === 'string' ? both(outcome) : outcome,
  isTaken,
});
/** Another body than the right one. */
const answer = (body: unknown): FaultRule => ({ kind: 'status', status: 201, effect: 'after', body });
/** A spoilt answer to a taken write: proof enough for a message, not for a create. */
const SPOILT: Record<Write, Outcome> = { create: 'carried out', 'follow-up': 'taken' };
/** What something on the way answers. */
const page = (status: number, type: string): FaultRule => ({
  ...{ kind: 'status', status, body: 'Just a moment…' },
  headers: { 'content-type': type },
});
const redirect = (status: number, location: string): FaultRule => ({ kind: 'status', status, headers: { location } });

/** The test knows its project. */
const LOCATED: FaultRule = {
  ...{ kind: 'status', status: 202, effect: 'after', body: '' },
  headers: { location: '/v2/agent/{project}/job/{id}' },
};

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
  fault('response stalls', 'after its headers', { kind: 'hang', at: 'response' }, SPOILT, true),
  fault('response cut off', 'within its body', { kind: 'truncated' }, SPOILT, true),
  fault('response is not JSON', 'accepted', answer('{"id":,,'), SPOILT, true),
  fault('response is empty', 'accepted', answer(''), SPOILT, true),
  fault('response without an id', 'accepted', answer({ status: 'active' }), SPOILT, true),
  fault('response of 2 MiB', 'accepted', answer('x'.repeat(2 ** 21)), SPOILT, true),
  fault('500', 'not accepted', { kind: 'status', status: 500, effect: 'before' }, 'unknown'),
  fault('500', 'accepted', { kind: 'status', status: 500, effect: 'after' }, 'unknown', true),
  fault('408', 'not accepted', { kind: 'status', status: 408, effect: 'before' }, 'unknown'),
  fault('409, vouched for', 'not accepted', { kind: 'status', status: 409, effect: 'before' }, 'not taken'),
  fault('529, vouched for', 'not accepted', { kind: 'status', status: 529, effect: 'before' }, 'not taken'),
  fault('429', 'with Retry-After', { kind: 'status', status: 429, retryAfter: 1 }, 'not taken'),
  fault('429', 'with a date', { kind: 'status', status: 429, retryAfterDateMs: 1_500 }, 'not taken'),
  fault('429', 'with an invalid value', { kind: 'status', status: 429, retryAfter: 'soon' }, 'not taken'),
  fault('400', '', { kind: 'status', status: 400, body: { error: 'no such branch' } }, 'refused'),
  fault(
    '404',
    'within a minute of the create',
    { kind: 'status', status: 404 },
    { create: 'refused', 'follow-up': 'not known yet' },
  ),
  fault('401', 'no newer key', { kind: 'status', status: 401 }, 'no key'),
  fault('403', 'no newer key', { kind: 'status', status: 403 }, 'no key'),
  fault('a page', '401, 403, 407', page(403, 'text/html'), 'blocked'),
  fault('a page', '404', page(404, 'text/plain'), 'blocked'),
  fault('redirect', '307, 308', redirect(307, '/elsewhere'), 'blocked'),
  fault('redirect', '301, 302, to another origin', redirect(302, 'https://login.example/'), 'blocked'),
  fault('redirect', '301, 302, accepted', { ...redirect(302, '/tasks/1'), effect: 'after' }, 'carried out', true),
  fault('redirect', '303, accepted', { ...redirect(303, '/tasks/1'), effect: 'after' }, 'carried out', true),
  fault('202 and `Location`', 'accepted', LOCATED, 'taken', true),
  fault('Temporal restored', 'before the time set', null, 'forgotten'),
];

/** The statuses for which the operator vouches in these tests. */
export const VOUCHED_STATUSES = [409, 529];

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
  switch (entry.outcome[write]) {
    case 'taken':
      return [row('any', write === 'create' ? 'its job' : 'the follow-up as `sent`: a 2xx is proof', 1, 1)];
    case 'not sent':
      return [row('any', 'only a delay: sent again', 2, 1)];
    case 'not taken':
    case 'not known yet':
      return [row('any', 'only a delay: sent again after the wait', 2, 1)];
    case 'no key':
      return [row('any', 'only a delay: `waiting.for` is `key`; sent again once the key is accepted', 2, 1)];
    case 'blocked':
      return [row('any', 'only a delay: `waiting.for` is `upstream`, its reason what answered; sent again', 2, 1)];
    case 'refused':
      return [row('any', write === 'create' ? 'failure `CreateRejected`' : 'follow-up `rejected`', 1, 0)];
    case 'forgotten':
      return [row('any', '`needsAttention` before anything is sent; a person says `retry`', 1, 1)];
    case 'carried out':
    case 'unknown': {
      const asks = entry.isTaken
        ? row('ask', `\`needsAttention\`; a person says \`${write === 'create' ? 'adopt' : 'delivered'}\``, 1, 1)
        : row('ask', '`needsAttention`; a person says `retry`', 2, 1);
      const isSentAgain = entry.outcome[write] === 'unknown';
      return [
        asks,
        row('fail', 'failure `UnknownOutcome`', 1, entry.isTaken ? 1 : 0),
        isSentAgain ? row('retry', 'only a delay: sent again', 2, entry.isTaken ? 2 : 1) : { ...asks, policy: 'retry' },
      ];
    }
  }
}

/** The outcome of a write, as the page calls it. */
const CALLED: Record<Exclude<Outcome, 'unknown'>, string> = {
  'not sent': 'not delivered',
  'not taken': 'throttled',
  'not known yet': 'too early',
  'no key': 'key refused',
  blocked: 'not taken',
  refused: 'rejected',
  'carried out': 'carried out',
  taken: 'accepted',
  forgotten: 'asks first',
};

function called(write: Write, { outcome, isTaken }: Fault): string {
  const name = outcome[write];
  return name === 'unknown' ? `in doubt, ${isTaken ? 'accepted' : 'not accepted'}` : CALLED[name];
}

/** The faults as Markdown, with the outcome of each. */
function faultTable(): string {
  const rows = FAULTS.map((entry) => [entry.fault, entry.moment, called('create', entry), called('follow-up', entry)]);
  return markdownTable(['fault', 'moment', 'a create is', 'a follow-up is'], rows);
}

/** What follows, as Markdown: with the table of faults it holds every row of the promises. */
function promiseTable(): string {
  const rows = new Map<string, Promise_[]>();
  for (const promise of PROMISES) {
    const row = `${called(promise.write, promise)} ${promise.policy}`;
    rows.set(row, [...(rows.get(row) ?? []), promise]);
  }
  const body = [...rows.values()].map((row) => {
    const { write, policy, requests, effects } = row[0]!;
    return [called(write, row[0]!), policy, seenBy(row), String(requests), String(effects)];
  });
  return markdownTable(['the write is', 'policy', 'what the caller sees', 'requests', 'accepted'], body);
}

/** What the caller sees, for each kind of write if they differ. */
function seenBy(promises: readonly Promise_[]): string {
  if (new Set(promises.map(({ sees }) => sees)).size === 1) return promises[0]!.sees;
  return [...new Set(promises.map(({ write, sees }) => `${write}: ${sees}`))].join('; ');
}

/** The tables of the page that are written as Markdown, by their markers. */
export const PROMISE_TABLES: Record<string, string> = { faults: faultTable(), promises: promiseTable() };
