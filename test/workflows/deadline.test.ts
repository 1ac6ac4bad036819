import { expect, test } from 'vitest';
import { followUpSignal, jobStateQuery, resolveUnknownUpdate } from '../../src/contract.js';
import { ReadFailedError } from '../../src/upstream/errors.js';
import { inDoubt, notDelivered, throttled } from '../support/outcomes.js';
import { useSkippedTime } from '../support/job-tests.js';
import { gate } from '../support/observed-upstream.js';

const tests = useSkippedTime();
const HOUR = 3_600_000;
/** The last look may come one wait late: this server tells a retry the time at which the attempt before it ended. */
const LATE = 125_000;
/** Each read costs the machine time, and a job of hours has many. At none of these times does a test do anything. */
const RARE = { min: '7 minutes', max: '7 minutes' };
const LATE_IF_RARE = 21 * 60_000;

const active = () => ({ status: 'active' });
const lasted = ({ startedAt, finishedAt }: { startedAt: string; finishedAt: string }) =>
  Date.parse(finishedAt) - Date.parse(startedAt);
const refused = (ms?: number) => throttled('429', ms);

function expectAbout(actual: number, wanted: number, late = LATE) {
  expect(actual).toBeGreaterThanOrEqual(wanted - 1);
  expect(actual).toBeLessThan(wanted + late);
}

test('a job that never ends is timedOut after 24 hours by default, with its last record', async () => {
  tests.upstream.show = active;
  const handle = await tests.bench.start({
    projectId: 'p1',
    prompt: 'Fix it',
    polling: { min: '1 hour', max: '1 hour' },
  });
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'timedOut', jobId: 'job-1', job: { status: 'active' } });
  expectAbout(lasted(result), 24 * HOUR, 2.1 * HOUR);
  expect(result.polls).toBe(tests.upstream.reads);
}, 120_000);

test('with deadline 0 the create is tried once and the job read once', async () => {
  const { upstream, bench } = tests;
  upstream.show = active;
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', deadline: 0 });
  expect(await handle.result()).toMatchObject({ outcome: 'timedOut', jobId: 'job-1', polls: 1 });
  expect([upstream.created.length, upstream.reads]).toEqual([1, 1]);
});

test('with deadline 0 a job that is over at its one read has ended', async () => {
  const handle = await tests.bench.start({ projectId: 'p1', jobId: 'j', deadline: '0 seconds' });
  expect(await handle.result()).toMatchObject({ outcome: 'completed', polls: 1 });
});

test('with deadline 0 a create that never left is not sent again', async () => {
  const { upstream, bench } = tests;
  upstream.createFaults.push(notDelivered('connection refused'));
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', deadline: 0 });
  expect(await handle.result()).toMatchObject({ outcome: 'timedOut', jobId: null, job: null, polls: 0 });
  expect(upstream.created).toHaveLength(1);
});

test('the clock stands still while a create waits on 429', async () => {
  const { upstream, bench } = tests;
  upstream.show = active;
  upstream.createFaults.push(refused(50 * 60_000), refused(50 * 60_000));
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', deadline: '1 hour', polling: RARE });
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'timedOut', jobId: 'job-3', job: { status: 'active' } });
  expectAbout(lasted(result), 100 * 60_000 + HOUR, LATE_IF_RARE);
});

test('after a wait on 429 a create has the rest of its time, and no more', async () => {
  const { upstream, bench } = tests;
  const never = Array.from({ length: 40 }, () => notDelivered('connection refused'));
  upstream.createFaults.push(refused(50 * 60_000), ...never);
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', deadline: '1 hour' });
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'timedOut', jobId: null });
  expectAbout(lasted(result), 50 * 60_000 + HOUR);
});

test('startWithin bounds how long a create waits for an upstream that can’t be reached', async () => {
  const { upstream, bench } = tests;
  upstream.createFaults.push(...Array.from({ length: 40 }, () => notDelivered('connection refused')));
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', startWithin: '30 minutes' });
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'timedOut', jobId: null, job: null });
  expectAbout(lasted(result), 30 * 60_000);
});

test('startWithin bounds nothing once the create may have arrived', async () => {
  const { upstream, bench } = tests;
  upstream.createFaults.push(inDoubt('upstream answered 500'), refused(50 * 60_000));
  const options = { startWithin: '30 minutes', onUnknownOutcome: 'retry' };
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', ...options });
  expect(await handle.result()).toMatchObject({ outcome: 'completed', jobId: 'job-3' });
});

test('an accepted follow-up starts the clock anew', async () => {
  const { upstream, bench, environment } = tests;
  upstream.show = active;
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', deadline: '1 hour', polling: RARE });
  await environment.sleep('30 minutes');
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'timedOut', followUps: [{ id: 'a', state: 'sent' }] });
  expectAbout(lasted(result), 1.5 * HOUR, LATE_IF_RARE);
});

test('the clock stands still while a follow-up waits on 429, and the job is read on', async () => {
  const { upstream, bench, environment } = tests;
  upstream.show = active;
  upstream.messageFaults.push(refused(HOUR), refused(HOUR));
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', deadline: '90 minutes', polling: RARE });
  await environment.sleep('10 minutes');
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  await environment.sleep('100 minutes');
  const readsBefore = upstream.reads;
  await environment.sleep('19 minutes');
  expect(upstream.reads).toBeGreaterThan(readsBefore);
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'timedOut', followUps: [{ id: 'a', state: 'sent' }] });
  expectAbout(lasted(result), 130 * 60_000 + 1.5 * HOUR, LATE_IF_RARE);
});

test('a job that ends while its follow-up waits on 429 is kept for it, whatever its deadline', async () => {
  const { upstream, bench, environment } = tests;
  upstream.messageFaults.push(refused(HOUR));
  const handle = await bench.start({
    projectId: 'p1',
    jobId: 'j',
    deadline: '10 minutes',
    settle: 0,
    linger: '1 hour',
  });
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  await environment.sleep('30 minutes');
  expect(await handle.query(jobStateQuery)).toMatchObject({ phase: 'sending', job: { status: 'completed' } });
  expect(await handle.result()).toMatchObject({ outcome: 'completed', followUps: [{ id: 'a', state: 'sent' }] });
});

test('the clock stands still while a person is awaited, and the job is read on', async () => {
  const { upstream, bench, environment } = tests;
  upstream.show = active;
  upstream.messageFaults.push(inDoubt('upstream answered 500'));
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', deadline: '1 hour', polling: RARE });
  await environment.sleep('10 minutes');
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  await environment.sleep('1 minute');
  expect((await handle.query(jobStateQuery)).phase).toBe('needsAttention');
  const readsBefore = upstream.reads;
  await environment.sleep('3 hours');
  expect((await handle.query(jobStateQuery)).phase).toBe('needsAttention');
  expect(upstream.reads).toBeGreaterThan(readsBefore + 10);
  upstream.messageFaults.push(...Array.from({ length: 40 }, () => notDelivered('connection refused')));
  await handle.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'retry' }] });
  const result = await handle.result();
  // Sent again, but not taken: what the first send did nobody knows.
  expect(result).toMatchObject({ outcome: 'timedOut', followUps: [{ id: 'a', state: 'unknown' }] });
  expectAbout(lasted(result), 4 * HOUR + 60_000, LATE_IF_RARE);
}, 120_000);

test('an unknown create does not run into the deadline, and adopting starts the clock', async () => {
  const { upstream, bench, environment } = tests;
  upstream.show = active;
  upstream.createFaults.push(inDoubt('upstream answered 500'));
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', deadline: '1 hour', polling: RARE });
  await environment.sleep('5 hours');
  expect((await handle.query(jobStateQuery)).phase).toBe('needsAttention');
  const state = await handle.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'adopt', jobId: 'mine' }] });
  expect(state).toMatchObject({ phase: 'watching', jobId: 'mine', unknown: null });
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'timedOut', jobId: 'mine' });
  expectAbout(lasted(result), 6 * HOUR, LATE_IF_RARE);
});

test('at the deadline there is no last look against a Retry-After', async () => {
  const { upstream, bench } = tests;
  upstream.show = active;
  upstream.readFaults.push(new ReadFailedError('upstream answered 429', 429, HOUR));
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', deadline: '10 minutes' });
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'timedOut', job: { status: 'active' } });
  expect(upstream.reads).toBe(1);
  expectAbout(lasted(result), 10 * 60_000);
});

test('a poll that began before the deadline, and showed something new after it, is not the last', async () => {
  const { upstream, bench, environment } = tests;
  const { opened, open } = gate();
  upstream.show = (read) => {
    if (read === 2) upstream.readGate = opened;
    return { status: ['active', 'stopping', 'completed'][read - 1]! };
  };
  const handle = await bench.start({
    projectId: 'p1',
    jobId: 'j',
    polling: { min: '40 seconds', max: '40 seconds' },
    deadline: '50 seconds',
  });
  await expect.poll(() => upstream.reads).toBe(1);
  await environment.sleep('45 seconds');
  await expect.poll(() => upstream.reads).toBe(2);
  await environment.sleep('7 seconds');
  open();
  expect(await handle.result()).toMatchObject({ outcome: 'completed', polls: 3 });
});

test('while lingering no clock runs, and a follow-up then has all of its time', async () => {
  const { upstream, bench, environment } = tests;
  upstream.show = () => ({ status: upstream.messages.length === 1 ? 'active' : 'completed' });
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', deadline: '1 hour', linger: '10 hours' });
  await environment.sleep('5 hours');
  expect((await handle.query(jobStateQuery)).phase).toBe('lingering');
  upstream.messageFaults.push(refused(30 * 60_000));
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  upstream.show = () => ({ status: 'completed' });
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'completed', followUps: [{ id: 'a', state: 'sent' }] });
  expect(lasted(result)).toBeGreaterThan(15.5 * HOUR - 1);
});

test('with deadline 0 a job that has ended still lingers for follow-ups', async () => {
  const { upstream, bench, environment } = tests;
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', deadline: 0, linger: '1 hour', settle: 0 });
  await environment.sleep('10 minutes');
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'completed', followUps: [{ id: 'a', state: 'sent' }] });
  expect(upstream.messages).toEqual(['go']);
});

test('at the deadline a terminal status too soon after a follow-up is the last record of a timed-out job', async () => {
  const { upstream, bench, environment } = tests;
  upstream.show = () => (upstream.messages.length > 0 ? { status: 'completed', prLink: 'https://pr' } : active());
  const handle = await bench.start({
    projectId: 'p1',
    prompt: 'Fix it',
    deadline: '1 hour',
    settle: '2 hours',
    polling: RARE,
  });
  await environment.sleep('1 minute');
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  expect(await handle.result()).toMatchObject({
    outcome: 'timedOut',
    job: { status: 'completed', prLink: 'https://pr' },
  });
});
