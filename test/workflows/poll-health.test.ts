import { expect, test } from 'vitest';
import { followUpSignal, jobStateQuery, pollNowSignal } from '../../src/contract.js';
import { ReadFailedError, RejectedError } from '../../src/upstream/errors.js';
import { rejected } from '../support/outcomes.js';
import { useSkippedTime } from '../support/job-tests.js';
import { gaps } from '../support/observed-upstream.js';

const tests = useSkippedTime();
const MINUTE = 60_000;
const input = { projectId: 'p1', prompt: 'Fix it' };
const missing = () => new RejectedError('upstream answered 404', 404, 'no such job');
const failed = (status?: number, retryAfterMs?: number) =>
  new ReadFailedError(`upstream answered ${status}`, status, retryAfterMs);
const times = <T>(n: number, make: () => T) => Array.from({ length: n }, make);

test('no trouble of the upstream ends the watch', async () => {
  const { upstream, bench } = tests;
  upstream.readFaults.push(
    failed(500),
    failed(),
    failed(401),
    failed(403),
    failed(429),
    failed(429, 0),
    failed(503, 100),
    missing(),
    failed(400),
    missing(),
    ...times(20, () => failed(502)),
  );
  const handle = await bench.start(input);
  expect(await handle.result()).toMatchObject({ outcome: 'completed', jobId: 'job-1' });
  expect(upstream.reads).toBe(31);
});

test('failed reads come ever more rarely, at most 5 minutes apart', async () => {
  const { upstream, bench } = tests;
  upstream.readFaults.push(...times(20, () => failed(500)));
  const handle = await bench.start({ ...input, polling: { min: '2 seconds', max: '2 seconds' } });
  await handle.result();
  const waits = gaps(upstream.readTimes.slice(1));
  expect(waits.at(-1)).toBeGreaterThan(250_000);
  expect(waits.every((wait) => wait < 306_000)).toBe(true);
});

test('Retry-After replaces a shorter wait, at most an hour at a time, and pollNow does not go against it', async () => {
  const { upstream, bench, environment } = tests;
  upstream.readFaults.push(failed(429, 30 * MINUTE), failed(503, 7_200_000));
  const handle = await bench.start(input);
  await expect.poll(() => upstream.reads).toBe(1);
  await environment.sleep('1 minute');
  await handle.signal(pollNowSignal);
  await environment.sleep('20 minutes');
  await handle.signal(pollNowSignal);
  await environment.sleep('1 minute');
  expect(upstream.reads).toBe(1);
  expect(await handle.result()).toMatchObject({ outcome: 'completed', polls: 3 });
  const [first, second] = gaps(upstream.readTimes);
  expect(first).toBeGreaterThanOrEqual(30 * MINUTE);
  expect(second).toBeGreaterThanOrEqual(60 * MINUTE);
  expect(second).toBeLessThan(62 * MINUTE);
});

test('an attached job that is answered 404 for a minute and 5 times in a row is lost', async () => {
  const { upstream, bench } = tests;
  upstream.readFaults.push(...times(100, missing));
  const handle = await bench.start({ projectId: 'p1', jobId: 'gone' });
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'lost', jobId: 'gone', job: null });
  expect(upstream.reads).toBeGreaterThanOrEqual(5);
  expect(Date.parse(result.finishedAt) - upstream.readTimes[0]!).toBeGreaterThanOrEqual(MINUTE);
  expect(result.polls).toBe(upstream.reads);
});

test('any other answer in between starts the count of 404 anew', async () => {
  const { upstream, bench } = tests;
  for (let i = 0; i < 6; i++) upstream.readFaults.push(...times(4, missing), failed(500));
  const handle = await bench.start({ ...input, polling: { min: '30 seconds' } });
  expect(await handle.result()).toMatchObject({ outcome: 'completed' });
  expect(upstream.reads).toBe(31);
});

test('pollNow, however often, does not hide that a job is lost', async () => {
  const { upstream, bench, environment } = tests;
  upstream.readFaults.push(...times(1_000, missing));
  const handle = await bench.start(input);
  await expect.poll(() => upstream.reads).toBeGreaterThan(0);
  // No sleep ends where a minute does, and with it the wait for the poll then: a wait that ends in the very task that
  // gives it up stops this server.
  for (let i = 0; i < 12 && (await handle.query(jobStateQuery)).phase !== 'done'; i++) {
    await environment.sleep('7 seconds');
    await handle.signal(pollNowSignal).catch(() => {});
  }
  expect((await handle.query(jobStateQuery)).phase).toBe('done');
  expect((await handle.result()).outcome).toBe('lost');
});

test('a lost job gives up what waits for it', async () => {
  const { upstream, bench } = tests;
  upstream.readFaults.push(...times(100, missing));
  upstream.messageFaults.push(rejected(404, 'no such job'));
  const handle = await bench.start(input);
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  expect(await handle.result()).toMatchObject({ outcome: 'lost', followUps: [{ id: 'a', state: 'rejected' }] });
});

test('while lingering only pollNow reads, and the run ends when its time is over', async () => {
  const { upstream, bench, environment } = tests;
  const handle = await bench.start({ ...input, linger: '2 hours' });
  await environment.sleep('1 hour');
  expect(await handle.query(jobStateQuery)).toMatchObject({ phase: 'lingering', polls: 1 });
  expect(upstream.reads).toBe(1);
  await handle.signal(pollNowSignal);
  await expect.poll(() => upstream.reads).toBe(2);
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'completed', polls: 2 });
  const lasted = Date.parse(result.finishedAt) - Date.parse(result.startedAt);
  expect(lasted).toBeGreaterThanOrEqual(120 * MINUTE);
  expect(lasted).toBeLessThan(121 * MINUTE);
});

test('a job that is no longer over when pollNow reads it is watched again, its deadline from that read', async () => {
  const { upstream, bench, environment } = tests;
  const handle = await bench.start({ ...input, linger: '5 hours', deadline: '1 hour' });
  await environment.sleep('3 hours');
  upstream.show = () => ({ status: 'active' });
  await handle.signal(pollNowSignal);
  await expect.poll(async () => (await handle.query(jobStateQuery)).phase).toBe('watching');
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'timedOut', job: { status: 'active' } });
  const lasted = Date.parse(result.finishedAt) - Date.parse(result.startedAt);
  expect(lasted).toBeGreaterThanOrEqual(240 * MINUTE);
  expect(lasted).toBeLessThan(243 * MINUTE);
});

test('a job that was missing while lingering and then is found again is not lost', async () => {
  const { upstream, bench, environment } = tests;
  const handle = await bench.start({ ...input, linger: '5 hours', deadline: '1 hour' });
  await environment.sleep('10 seconds');
  upstream.readFaults.push(...times(6, missing));
  upstream.show = () => ({ status: 'active' });
  for (let read = 2; read <= 8; read++) {
    await environment.sleep('30 seconds');
    await handle.signal(pollNowSignal);
    await expect.poll(() => upstream.reads).toBeGreaterThanOrEqual(read);
  }
  expect(await handle.result()).toMatchObject({ outcome: 'timedOut', job: { status: 'active' } });
});

test('a refused follow-up while lingering changes nothing', async () => {
  const { upstream, bench, environment } = tests;
  const handle = await bench.start({ ...input, linger: '1 hour' });
  await environment.sleep('30 minutes');
  upstream.messageFaults.push(rejected(409, 'archived'));
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'completed', followUps: [{ id: 'a', state: 'rejected' }] });
  expect(Date.parse(result.finishedAt) - Date.parse(result.startedAt)).toBeLessThan(61 * MINUTE);
});
