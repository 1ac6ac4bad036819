import { expect, test } from 'vitest';
import { followUpSignal, jobStateQuery, resolveUnknownUpdate } from '../../src/contract.js';
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
  // Sent again, but not taken: what the first send did is unknown.
  expect(result).toMatchObject({ outcome: 'timedOut', followUps: [{ id: 'a', state: 'unknown' }] });
  expectAbout(lasted(result), 4 * HOUR + 60_000, LATE_IF_RARE);
}, 120_000);

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
  upstream.messageFaults.push(throttled('429', 30 * 60_000));
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  upstream.show = () => ({ status: 'completed' });
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'completed', followUps: [{ id: 'a', state: 'sent' }] });
  expect(lasted(result)).toBeGreaterThan(15.5 * HOUR - 1);
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
