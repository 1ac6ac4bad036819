/**
 * The promise table: fault × moment × policy → what the caller sees and how many requests the upstream got. Each row is
 * a test (promises.test.ts), and docs/promises.md shows exactly these rows. All other promises are in one record, each
 * with the test that holds it.
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

/** What is promised, and the title of the test that fails if it does not hold. */
interface TestedPromise {
  fault: string;
  promise: string;
  test: string;
  title: string;
}

const tested = (fault: string, promise: string, test: string, title: string): TestedPromise => ({
  fault,
  promise,
  test: `test/${test}.test.ts`,
  title,
});

/** All other promises, by the marker of their table on the page. */
export const TESTED_PROMISES: Record<string, TestedPromise[]> = {
  'end-promises': [
    tested(
      'the pull request comes after `completed`, or goes again',
      'the result has the last link that was seen, and all of them',
      'workflows/ends',
      '%s is told as it is in the end',
    ),
    tested(
      'the create’s own answer says that the job has ended',
      'the job is polled once at least',
      'workflows/ends',
      'a create whose own answer says `completed` is polled until its link is there',
    ),
    tested(
      'the end of an earlier prompt is shown after a follow-up',
      'the result has the end that stands, and says whether work was seen',
      'workflows/ends',
      'after a follow-up: %s',
    ),
    tested(
      'the upstream goes on changing between ends',
      'its last end counts after 10 × `settle`, and `reason` says so',
      'workflows/ends',
      'an upstream that flaps each second ends after ten times `settle`, and the result says why',
    ),
    tested(
      'a page polls the job by `pollNow` all the time',
      'the end counts at the same moment',
      'workflows/ends',
      'a page that polls the job every five seconds delays no end',
    ),
    tested(
      'the deadline passes while an end stands',
      'the outcome is that end',
      'workflows/ends',
      'a deadline within `settle` gives the end that was read last, and says so',
    ),
    tested(
      'the upstream gives a status that its interface does not name',
      'nothing ends; state, result, metric and alert say so',
      'workflows/ends',
      'a deadline while the upstream is at work, and a status that no page names, are told in the result',
    ),
  ],
  'queue-promises': [
    tested(
      'many wait, of several priorities',
      'the highest priority (1) goes first; within a priority, the one that asked first',
      'request-queue/skipped-time',
      'those of a higher priority go first, and within one those who asked first',
    ),
    tested(
      'one that waits asks again',
      'it keeps its place',
      'request-queue/skipped-time',
      'who asks again keeps the place, and may change the priority',
    ),
    tested(
      'no budget is known',
      'turns are answered 429 at most 16 times in any hour, whatever the number of jobs',
      'unit/request-queue',
      'whatever is killed, and however the clock is set back, all are served and no promise is broken',
    ),
    tested(
      'a budget is set',
      'no more are sent in any hour',
      'request-queue/skipped-time',
      'a set budget lets so many go at once, and the others when the hour frees their turns',
    ),
    tested(
      'a budget of a day is set, alone or beside one of an hour',
      'no more are sent in any hour and any day, with workers killed and the queue continued as new',
      'unit/request-queue',
      'never above the budgets of an hour and a day, with workers killed and the queue continued as new',
    ),
    tested(
      'the queue of a project with a budget is terminated',
      'at most twice the budget is sent in any hour or day',
      'unit/request-queue',
      'after a queue was terminated, at most twice the budget is sent in any hour or day',
    ),
    tested(
      '300 creates meet a budget of 100 an hour',
      'with the budget set all are sent in 2 h + 3 %; without it in 2 h 40 min, with at most 16 answers 429 an hour',
      'unit/request-queue',
      '300 creates at 100 an hour keep the promise, with the budget set and without',
    ),
    tested(
      '90 creates meet a limit of 30 a minute, and no `Retry-After`',
      'all are sent within eight minutes',
      'unit/request-queue',
      '90 creates at 30 a minute without Retry-After: all within eight minutes',
    ),
    tested(
      'a raised budget, or `unlimited`, while jobs wait',
      'a worker reports it, and they go',
      'worker/budget-change',
      'those that wait go when the budget in the file is raised from 1 to 1000, or becomes "unlimited"',
    ),
    tested(
      'a raised budget of a day while jobs wait',
      'their `waiting` names the budget until then, with the time of their turn, and they go',
      'worker/budget-change',
      'those that wait for the budget of a day say so, and go when it is raised in the file',
    ),
    tested(
      'exports at the same time',
      'together they keep the one budget of exports, over several workers',
      'export/two-workers',
      'two exports and a backfill over two processes make no more than their one budget in any hour',
    ),
    tested(
      'exports are answered 429, and no budget is set',
      'at most 16 answers 429 an hour for all of them',
      'export/shared-budget',
      'without a set budget exports that are answered 429 share what the upstream takes',
    ),
    tested(
      'exports of several priorities wait',
      'the highest priority (1) goes first, in whatever order they asked',
      'export/shared-budget',
      'the export of higher priority goes first, even if another asked before',
    ),
    tested(
      'an export is cancelled while it waits',
      'the others get its turns',
      'export/shared-budget',
      'an export that is cancelled while it waits leaves its place to the others',
    ),
    tested(
      'a worker is killed while it reads an export',
      'its whole turn counts as used, and no page is missing',
      'export/shared-budget',
      'a chunk whose worker is killed has spent its whole turn',
    ),
    tested(
      "no worker takes an export's turn in time",
      'it is given back unused, and another one is asked for',
      'export/shared-budget',
      'a turn that comes to no worker in time is given back unused, and another one is asked for',
    ),
    tested(
      'the queue of all exports is terminated',
      'they wait longer, and each one ends',
      'export/shared-budget',
      'a queue that is terminated delays the exports that wait, and stops none',
    ),
    tested(
      'a create waits longer than `deadline`',
      '`deadline` stands still; `startWithin` ends the wait as `timedOut`, and nothing was sent',
      'workflows/waiting-writes',
      'a create that waits outlives its deadline, and ends at the end of startWithin',
    ),
    tested(
      'a write in doubt waits for its turn after `deadline`',
      'it is sent in its turn, as a write in flight; `decideWithin` or a cancellation ends the wait as in doubt',
      'workflows/policy-retry',
      'a create in doubt that is throttled from then on is sent in its turn',
    ),
    tested(
      'a follow-up waits longer than `deadline`',
      '`deadline` stands still, and the job is polled on',
      'workflows/waiting-writes',
      'a follow-up that waits outlives the deadline while the job is read on, and a cancellation abandons it',
    ),
    tested(
      'a wait of hours',
      'every 13 to 20 minutes at most 12 history events and 4 actions',
      'workflows/turns-over-hours',
      'a job that waits asks again every 13 to 20 minutes, for 12 events and 4 actions',
    ),
    tested(
      'none: a lone job',
      'no event and no action more; one question to the server, at most every half minute',
      'activities/gate',
      'writes of a quiet project cost their fences, and one question to the server each half minute',
    ),
    tested(
      'anything keeps a job waiting',
      '`waiting` says what, since when and until when, at every moment',
      'workflows/waiting-life',
      'from its start to its end a job shows what it waits for, whatever fails',
    ),
    tested(
      'the upstream fails the polls of a job',
      '`waiting`, lists and metrics say so, at no more than 25 history events from the first failure to the good poll',
      'workflows/poll-health',
      'a spell of trouble with %s costs at most 25 history events',
    ),
    tested(
      'the upstream flaps',
      'new trouble ends a batch of polls at most every ten minutes, and the next good poll ends one',
      'workflows/poll-health',
      'an upstream that flaps is shown again at most every ten minutes, and each recovery at once',
    ),
    tested(
      'the queue workflow is terminated',
      'those that wait ask again within 20 minutes; none is lost, doubled or left waiting',
      'workflows/turns-over-hours',
      'those whose queue is terminated ask again within 20 minutes, and none is lost or doubled',
    ),
    tested(
      'the worker of the queue is killed',
      'no turn is lost or doubled',
      'request-queue/real-time',
      'killed workers of the queue cost no turn and double none',
    ),
    tested(
      'the worker of a job is killed with a turn',
      'the turn counts as used; that write is in doubt at most, and the others keep their order',
      'worker/queue-kills',
      'workers that are killed while jobs wait, or with a turn, cost no job and double none',
    ),
    tested(
      'Temporal is killed',
      'only a delay; a write that was under way is in doubt at most',
      'worker/queue-kills',
      'Temporal that is killed while jobs wait and while turns are given costs no job and doubles none',
    ),
    tested(
      'the queue continues as new under load',
      'each write keeps its place',
      'request-queue/real-time',
      'under traffic the queue continues as new again and again, and loses no place',
    ),
    tested(
      'jobs are cancelled while they wait',
      'each costs the ones behind it a signal, and nothing of the budget',
      'workflows/turns',
      'thirty that are cancelled cost the one that waits behind them a signal each, and nothing of the budget',
    ),
    tested(
      'a job is terminated while it waits',
      'its turn goes to the next one at once, and costs nothing',
      'request-queue/skipped-time',
      'a turn for a workflow that is not there goes to the next one at once',
    ),
    tested(
      'a turn is lost with its worker, or never reported',
      'it counts as used, so that the budget is never exceeded',
      'request-queue/skipped-time',
      'a turn that is not reported in time counts as used, and a late report corrects nothing',
    ),
    tested(
      'a turn comes too late',
      'it is given back unused; the job keeps its place',
      'workflows/turns',
      'a turn that comes too late is not used: the job keeps its place, and sends with the next one',
    ),
    tested(
      'a turn ends while its write waits for a worker',
      'it is given back unused; the job keeps its place',
      'workflows/late-attempts',
      'a turn that ended while its write waited for a worker is not used',
    ),
    tested(
      'a 429 is reported after the end of its turn',
      'its `Retry-After` holds the others back',
      'request-queue/skipped-time',
      'a 429 that is reported after the end of its turn holds the others for as long as it said',
    ),
    tested(
      'the queue is reset by an operator',
      'turns for those that have sent are given back, and the next ones go at once',
      'workflows/turns',
      'jobs that have sent give back the turns that a queue gives them after its reset',
    ),
    tested(
      'a turn of the other kind of write reaches a job that waits',
      'it is given back, and the write waits on for its own',
      'workflows/turns',
      'a follow-up that waits for its turn does not take one of the queue of creates',
    ),
    tested(
      'a turn comes twice',
      'one write is sent',
      'workflows/turns',
      'a turn that comes twice sends once, and one that no write waits for sends nothing',
    ),
    tested(
      'attempts waited hours for a worker, as in an outage',
      'what they met holds all others back',
      'workflows/late-attempts',
      'a 429 that an old attempt met holds the jobs that are started since, as any other',
    ),
    tested(
      'the budgets file breaks while the worker runs',
      'its last good content holds',
      'unit/budgets',
      'each new problem of the file is reported once, and its last good content holds',
    ),
    tested(
      'a file of jobs has wrong lines',
      'each line has exactly one outcome, and the other lines go on',
      'cli/start-from',
      'each line has one outcome: a bad one is refused with what is wrong, and the others go on',
    ),
  ],
  /** Promises of payloads, if a worker and its callers have keys. */
  'encryption-promises': [
    tested(
      'a stranger reads the database, the logs or the metrics',
      'no word of a prompt is there',
      'e2e/encryption',
      'with keys no word of a prompt is in database, logs, metrics or output, over a rotation',
    ),
    tested(
      'the key is replaced under running jobs',
      'no workflow task fails, and old histories stay readable',
      'e2e/encryption',
      'with keys no word of a prompt is in database, logs, metrics or output, over a rotation',
    ),
    tested(
      'a payload comes whose key is not in the file yet',
      'it is read once the key is there; until then the error names the key’s id',
      'unit/payload-codec',
      'a key that is not known yet is looked for in the file at once',
    ),
    tested(
      'the file of keys breaks while it is in use',
      'its last good content holds',
      'unit/payload-codec',
      'while the file is broken or gone its last good content holds; without one it is refused',
    ),
    tested(
      'a ciphertext was changed, cut, or is of another key with the same id',
      'it is refused, and nothing of it is shown',
      'unit/payload-codec',
      'what was changed, or encrypted with another key of the same name, is refused without a word of it',
    ),
    tested(
      'a worker without the keys runs among workers with them',
      'it sends no request without its arguments, and begins no open job anew',
      'e2e/mixed-keys',
      'no request leaves without its project and prompt, and no job is created twice',
    ),
    tested(
      'a caller has keys in its environment and no codec',
      'it is warned at once',
      'client/codec',
      'a caller with a file of keys in its environment and no codec is warned',
    ),
    tested(
      'the upstream repeats the prompt in an error',
      'no log line shows it, and under `hidePrompts` no state and no failure',
      'worker/upstream-texts',
      'no text of the upstream is in a log line, and none is shown where prompts are hidden',
    ),
  ],
  /** Promises of jobs that a Schedule of Temporal starts. */
  'schedule-promises': [
    tested(
      'any Schedule starts the job, with nothing but an input',
      'one job is created for each run, with a key, title and hash like any other',
      'e2e/recurring',
      'a stranger’s Schedule and our own create one job for each of their runs',
    ),
    tested(
      'a Schedule makes up for a time whose job has ended',
      'that run asks before it creates, unless the create had been refused',
      'e2e/recurring',
      'a time whose job has ended asks before it creates another; one that was refused does not',
    ),
    tested(
      'a scheduled job waits for a person, or is followed up after its end',
      'only a job that waits for a person delays the next run',
      'e2e/recurring',
      'a job that waits for a person holds the next time up; one that is followed up does not',
    ),
  ],
  /** What a caller's trace context brings about, and what it never changes. */
  'trace-promises': [
    tested(
      'a traced job goes on in a new run',
      'its log lines and activities keep the trace id',
      'workflows/continue-as-new',
      'has the trace context of the caller that started the job',
    ),
    tested(
      'the header of the trace context is malformed, huge, or no text',
      'the job runs as ever, without a trace id',
      'workflows/trace-context',
      'a header that is no trace context harms nothing, and is not handed on',
    ),
    tested(
      'no caller sends a trace context',
      'the history holds none',
      'workflows/trace-context',
      'the trace context of a caller is handed on to each activity of the job, and none without one',
    ),
  ],
  /** Promises of what a worker reaches Temporal with. */
  'credentials-promises': [
    tested(
      'the client certificate is replaced by one of another authority, and the worker is restarted',
      'its jobs go on with the new one, and no task fails',
      'e2e/certificates',
      'a worker that is restarted with a client certificate of another authority goes on with its jobs',
    ),
    tested(
      'the certificate expires while a worker waits for Temporal',
      'it connects with the one that its files hold by then',
      'worker/connection',
      'a worker that waits for Temporal tries with the certificate that its files have by then',
    ),
  ],
  /** Promises to callers over HTTP. */
  'http-promises': [
    tested(
      'a start is repeated under its `Idempotency-Key`',
      'no second job; 422 with another prompt',
      'http/jobs',
      'a start repeated under its Idempotency-Key makes no second job; with another prompt it is refused',
    ),
    tested(
      'a path, or an id, names the job of another project',
      '403 before anything is looked up: never the data of another project',
      'http/access',
      "another project's job is 403 by every address, whether or not it is there",
    ),
    tested(
      'bytes that a proxy may read otherwise',
      '4xx or a closed connection: never the data of another project',
      'http/hostile',
      'paths that a proxy may read otherwise lead to no other project',
    ),
    tested(
      'an agent repeats its start, without a key',
      'no second job: the key follows from project and prompt',
      'http/mcp',
      'an agent that repeats its start without a key makes no second job, and waits for the result',
    ),
  ],
  /** Promises to receivers of webhooks. */
  'webhook-promises': [
    tested(
      'every worker is killed again and again, and the receiver fails',
      'each end is reported, by one `webhook-id` and one body',
      'e2e/webhooks',
      'every worker is killed again and again, and the receiver fails: each end is sent, by one id and one body',
    ),
    tested(
      'the workflow that finds events begins a new run',
      'each end is reported once',
      'webhooks/sweep',
      'a run of the workflow that is full hands on what it knows: nothing is reported twice or left out',
    ),
    tested(
      'the workflow that finds events is terminated',
      'no end is missed',
      'webhooks/sweep',
      'a sweep that was terminated goes on from there, and reports nothing twice',
    ),
    tested(
      'a job is reset',
      'no event is sent: the job goes on',
      'webhooks/sweep',
      'a run that is reset is no end: the job goes on',
    ),
    tested(
      'a receiver is down for two hours',
      'the same event later, signed anew; eleven tries in about three days',
      'webhooks/delivery',
      'a receiver that is down for two hours gets the same event, signed anew',
    ),
    tested(
      'a receiver hangs, with 60 deliveries to it',
      'another receiver gets its events meanwhile',
      'webhooks/deliveries',
      'beside 60 deliveries to a receiver that hangs, another one is made',
    ),
    tested(
      'a receiver answers with a redirect',
      'it is not followed: nothing goes elsewhere',
      'webhooks/post',
      'a redirect is an answer, and is not followed',
    ),
    tested(
      'the file of the endpoints is wrong',
      'it is reported, and every job goes on',
      'e2e/webhooks',
      'a wrong file is reported, and the worker does its jobs',
    ),
  ],
  /** Promises of what people say about a job. */
  'decision-promises': [
    tested(
      'a person adopts a job that is older than the first send of the create',
      'it is refused unless `force` is given, and nothing is resolved',
      'workflows/unknown',
      'a job that is older than the first send is adopted with force alone, however long the run waited',
    ),
    tested(
      'a person adopts a job that another workflow holds',
      'it is refused unless `force` is given, and nothing is resolved',
      'workflows/adopt',
      'a job that another workflow has is adopted with force alone',
    ),
    tested(
      "a follow-up's id is repeated with another prompt",
      'it is refused, after the end too, and only the first prompt is sent',
      'client/re-attach',
      'a follow-up id that is repeated with another prompt is refused, after the end too',
    ),
    tested(
      'a script says `retry` before a check upstream can be trusted',
      'it is refused, unless it says so with `--yes`',
      'cli/resolve',
      'a script may not say retry before a check upstream can be trusted, but with --yes',
    ),
  ],
};

/** Every table of the page as Markdown, by its marker. */
export const PROMISE_TABLES: Record<string, string> = {
  faults: faultTable(),
  promises: promiseTable(),
  ...Object.fromEntries(Object.entries(TESTED_PROMISES).map(([marker, promises]) => [marker, testedTable(promises)])),
};

function testedTable(promises: readonly TestedPromise[]): string {
  const rows = promises.map(({ fault, promise, test }) => [fault, promise, `\`${test}\``]);
  return markdownTable(['fault', 'what is promised', 'held by'], rows);
}
