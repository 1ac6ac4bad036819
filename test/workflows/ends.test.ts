import { randomUUID } from 'node:crypto';
import { activityInfo } from '@temporalio/activity';
import { expect, test } from 'vitest';
import {
  followUpSignal,
  jobStateQuery,
  pollNowSignal,
  resolveUnknownUpdate,
  type AgentJobInput,
  type JobRecord,
} from '../../src/contract.js';
import { ReadFailedError, RejectedError } from '../../src/upstream/errors.js';
import type { agentJob } from '../../src/workflows/index.js';
import { inDoubt } from '../support/outcomes.js';
import { resetRun } from '../support/reset.js';
import { useDevServer } from '../support/job-tests.js';
import { skipTime, skipTimeBy } from '../support/skip-time.js';

const { server, upstream, bench } = useDevServer();
const SECOND = 1_000;
const A = 'https://github.example/a/b/pull/1';
const B = 'https://github.example/a/b/pull/2';
const polling = { min: SECOND };
const create = { projectId: 'p1', prompt: 'Fix it', polling };
const attach = { projectId: 'p1', jobId: 'job-7', polling };

const active = { status: 'active', prLink: null };
const completed = (prLink: string | null = null) => ({ status: 'completed', prLink });
const failed = { status: 'failed', prLink: null };
const gone = new RejectedError('gone', 404, '');

type Shown = Partial<JobRecord> | Error;
/** What polls show, and for how many seconds; the last for ever. */
type Plan = { shown: Shown; seconds: number }[];
const stage = (shown: Shown, seconds: number): Plan[number] => ({ shown, seconds });

/**
 * From the first write or poll on, or from the first message if there is one. The batch of polls that was under way
 * when the message was sent goes on as before: its polls may come before the run knows that the message was accepted.
 */
function follow(before: Plan, afterMessage: Plan = []): void {
  let earlierBatch = '';
  upstream.show = () => {
    const { activityId } = activityInfo();
    const now = upstream.readTimes.at(-1)!;
    const messageAt = upstream.messageTimes.at(0);
    if (messageAt === undefined) earlierBatch = activityId;
    const isAfter = messageAt !== undefined && afterMessage.length > 0 && activityId !== earlierBatch;
    let left = now - (isAfter ? messageAt : (upstream.createTimes[0] ?? upstream.readTimes[0]!));
    const plan = isAfter ? afterMessage : before;
    const { shown } = plan.find(({ seconds }) => (left -= seconds * SECOND) < 0) ?? plan.at(-1)!;
    if (shown instanceof Error) throw shown;
    return shown;
  };
}

async function endOf(input: Partial<AgentJobInput>) {
  const handle = await bench.start(input);
  await skipTime(handle);
  return handle.result();
}

test.for<[name: string, input: object, plan: Plan, end: object]>([
  [
    'a link that comes 15 s after `completed`',
    create,
    [stage(active, 3), stage(completed(), 15), stage(completed(A), 99)],
    { prLink: A },
  ],
  ['an attached job whose link comes late', attach, [stage(completed(), 10), stage(completed(A), 99)], { prLink: A }],
  ['`completed` without a link for ever', create, [stage(active, 3), stage(completed(), 99)], { prLink: null }],
  [
    'a link that the end no longer shows',
    create,
    [stage({ status: 'active', prLink: A }, 3), stage(completed(), 99)],
    { prLink: A, prLinks: [A], job: { prLink: null } },
  ],
  [
    'an end and then 404 for ever',
    create,
    [stage(active, 3), stage(completed(), 5), stage(gone, 999)],
    { prLink: null, reason: expect.stringContaining('404') as string },
  ],
])('%s is told as it is in the end', async ([, input, plan, end]) => {
  follow(plan);
  expect({ reason: null, ...(await endOf(input)) }).toMatchObject({ outcome: 'completed', reason: null, ...end });
});

test('a create whose own answer says `completed` is polled until its link is there', async () => {
  upstream.createAnswer = completed();
  follow([stage(completed(), 1), stage(completed(A), 99)]);
  const result = await endOf(create);
  expect(result).toMatchObject({ outcome: 'completed', prLink: A, prLinks: [A], sawWork: null });
  expect(result.polls).toBeGreaterThanOrEqual(1);
});

test('with the default polling an end without a link costs one batch and at most five polls more', async () => {
  follow([stage(completed(), 99)]);
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it' });
  await expect.poll(() => upstream.reads).toBeGreaterThan(0);
  await expect.poll(async () => (await handle.query(jobStateQuery)).waiting).toMatchObject({ for: 'settle' });
  expect(await handle.query(jobStateQuery)).toMatchObject({
    phase: 'watching',
    job: { status: 'completed' },
    outcome: null,
  });
  await skipTime(handle);
  expect(await handle.result()).toMatchObject({ outcome: 'completed', prLink: null });
  expect(upstream.reads).toBeLessThanOrEqual(6);
  const { events } = await handle.fetchHistory();
  const batches = events!.filter(
    (event) => event.activityTaskScheduledEventAttributes?.activityType?.name === 'pollJob',
  );
  expect(batches).toHaveLength(2);
});

/** Sends a follow-up, to a job that the run created once a poll has shown it, and returns the result of the run. */
async function afterMessage(input: object, before: Plan, after: Plan) {
  follow(before, after);
  const handle = await bench.start(input);
  await expect.poll(() => 'jobId' in input || upstream.reads > 0).toBe(true);
  await handle.signal(followUpSignal, { prompt: 'more', id: 'f' });
  await skipTime(handle);
  return handle.result();
}

test.for<[name: string, input: object, before: Plan, after: Plan, end: object]>([
  [
    'the old end is shown for 12 s, then work, then the new one',
    attach,
    [stage(completed(A), 99)],
    [stage(completed(A), 12), stage(active, 20), stage(completed(B), 99)],
    { prLink: B, prLinks: [A, B], sawWork: true },
  ],
  [
    'the first prompt ends, then the message is worked on',
    create,
    [stage(active, 999)],
    [stage(completed(A), 8), stage(active, 6), stage(completed(B), 99)],
    { prLink: B, prLinks: [A, B], sawWork: null },
  ],
  [
    'it fails for 9 s, goes on, and completes',
    create,
    [stage(active, 999)],
    [stage(failed, 9), stage(active, 6), stage(completed(A), 99)],
    { prLink: A, sawWork: null },
  ],
  ['nothing changes', attach, [stage(completed(A), 99)], [stage(completed(A), 99)], { prLink: A, sawWork: false }],
  [
    'the work takes half an hour, between ends that are both true',
    { ...attach, polling: { min: SECOND, ratio: 1 } },
    [stage(completed(A), 99)],
    [stage(completed(A), 12), stage(active, 1_800), stage(completed(A), 99)],
    { prLink: A, sawWork: true },
  ],
])('after a follow-up: %s', async ([, input, before, after, end]) => {
  expect(await afterMessage(input, before, after)).toMatchObject({
    outcome: 'completed',
    followUps: [{ state: 'sent' }],
    ...end,
  });
});

test('an upstream that flaps each second ends after ten times `settle`, and the result says why', async () => {
  upstream.show = (read) => (read % 2 === 0 ? active : completed());
  // A busy machine leaves no gap between two polls that is longer.
  const result = await endOf({ ...create, settle: '8 seconds' });
  expect(result).toMatchObject({
    outcome: 'completed',
    reason: expect.stringMatching(/changed.*last end counts/) as string,
  });
  const span = upstream.readTimes.at(-1)! - upstream.readTimes[0]!;
  expect(span).toBeGreaterThanOrEqual(80 * SECOND);
});

test('a reset while an end stands waits for the link, and creates nothing', async () => {
  follow([stage(completed(), 20), stage(completed(A), 999)]);
  const handle = await bench.start(create);
  await expect.poll(async () => (await handle.query(jobStateQuery)).waiting?.for).toBe('settle');
  const runId = await resetRun(server, handle.workflowId, (tasks) => tasks.at(-1)!);
  const again = server.client.workflow.getHandle<typeof agentJob>(handle.workflowId, runId);
  await skipTime(again);
  expect(await again.result()).toMatchObject({ outcome: 'completed', prLink: A });
  expect(upstream.created).toHaveLength(1);
});

test('an adopted job that has ended is polled until its link is there', async () => {
  upstream.createFaults.push(inDoubt('no answer'));
  follow([stage(completed(), 10), stage(completed(A), 999)]);
  const handle = await bench.start({ ...create, projectId: randomUUID() });
  await expect.poll(async () => (await handle.query(jobStateQuery)).phase).toBe('needsAttention');
  await handle.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'adopt', jobId: 'job-9', force: true }] });
  await skipTime(handle);
  expect(await handle.result()).toMatchObject({ outcome: 'completed', jobId: 'job-9', prLink: A });
});

test('a 404 page in place of the answer is a failed poll, shown as one, and ends a job after an hour', async () => {
  const reason = 'a page instead of an answer: 404 default backend - 404';
  const page = new ReadFailedError(`${reason} (get)`, 404, undefined, reason, true);
  follow([stage(page, 1_800), stage(completed(A), 999)]);
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it' });
  const waiting = async () => (await handle.query(jobStateQuery)).waiting;
  await expect.poll(waiting).toMatchObject({ for: 'upstream', reason });
  await skipTime(handle);
  expect(await handle.result()).toMatchObject({ outcome: 'completed', prLink: A });

  upstream.show = () => {
    throw page;
  };
  upstream.readTimes.length = 0;
  const result = await endOf({ projectId: 'p1', prompt: 'Fix it' });
  expect(result).toMatchObject({ outcome: 'lost', reason: expect.stringContaining(reason) as string });
  expect(upstream.readTimes.at(-1)! - upstream.readTimes[0]!).toBeGreaterThanOrEqual(3_600 * SECOND);
});

test('a page that polls the job every five seconds delays no end', async () => {
  follow([stage(completed(), 999)]);
  const handle = await bench.start(create);
  await expect.poll(async () => (await handle.query(jobStateQuery)).waiting?.for).toBe('settle');
  const sinces = new Set<string | undefined>();
  for (let s = 0; s < 30; s += 5) {
    const { waiting, outcome } = await handle.query(jobStateQuery);
    if (outcome === null) sinces.add(waiting?.since);
    await handle.signal(pollNowSignal);
    await skipTimeBy(handle, '5 seconds').catch(() => {});
  }
  await skipTime(handle).catch(() => {});
  expect(await handle.result()).toMatchObject({ outcome: 'completed' });
  const span = upstream.readTimes.at(-1)! - upstream.readTimes[0]!;
  expect(span).toBeGreaterThanOrEqual(30 * SECOND);
  expect(sinces.size).toBe(1);
});

test('a deadline within `settle` gives the end that was read last, and says so', async () => {
  follow([stage(active, 3), stage(completed(), 999)]);
  const result = await endOf({ ...create, deadline: '5 seconds' });
  expect(result).toMatchObject({ outcome: 'completed', reason: expect.stringMatching(/deadline/) as string });
});

test('a deadline while the upstream is at work, and a status that no page names, are told in the result', async () => {
  upstream.show = () => active;
  expect(await endOf({ ...create, deadline: '5 seconds' })).toMatchObject({
    outcome: 'timedOut',
    reason: 'the upstream still said "active"',
  });
  upstream.show = () => ({ status: 'cancelled' });
  expect(await endOf({ ...create, deadline: '5 seconds' })).toMatchObject({
    outcome: 'timedOut',
    reason: 'the upstream says "cancelled", a status that its interface does not name',
  });
});
