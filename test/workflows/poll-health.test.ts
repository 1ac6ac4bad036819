import { expect, test } from 'vitest';
import { followUpSignal, jobStateQuery, pollNowSignal } from '../../src/contract.js';
import { ReadFailedError } from '../../src/upstream/errors.js';
import { useDevServer } from '../support/job-tests.js';
import { gaps } from '../support/observed-upstream.js';
import { rejected } from '../support/outcomes.js';
import { skipTime, skipTimeBy } from '../support/skip-time.js';

const { upstream, bench } = useDevServer();
const MINUTE = 60_000;
const input = { projectId: 'p1', prompt: 'Fix it', settle: 0 };
const unknownJob = () => rejected(404, 'no such job');
const failed = (status?: number, retryAfterMs?: number) =>
  new ReadFailedError(`upstream answered ${status}`, status, retryAfterMs);
const times = <T>(n: number, make: () => T) => Array.from({ length: n }, make);

/** The history of a job that polls show so, one after the other: null is active, and the last poll ends it. */
async function historyOf(reads: (Error | null)[]) {
  const script = [...reads];
  upstream.reads = 0;
  upstream.show = () => {
    const fault = script.shift();
    if (fault) throw fault;
    return { status: script.length > 0 ? 'active' : 'completed' };
  };
  const handle = await bench.start({ ...input, polling: { min: '1 minute', max: '1 minute' } });
  // No workflow task is under way, so that the skips cost the same in each history.
  await expect.poll(() => upstream.reads).toBe(1);
  await skipTime(handle);
  expect(await handle.result()).toMatchObject({ outcome: 'completed', polls: reads.length });
  const { events } = await handle.fetchHistory();
  return events!.filter((event) => !event.workflowExecutionTimeSkippingTransitionedEventAttributes);
}

test.for([
  ['one cause', times(16, () => failed(503))],
  ['a Retry-After each time', times(16, () => failed(429, 30_000))],
  ['other causes in turn', times(4, () => [failed(503), failed(401), failed(403), failed()]).flat()],
] as const)('a spell of trouble with %s costs at most 25 history events', async ([, faults]) => {
  const quiet = await historyOf([null, null, null]);
  const troubled = await historyOf([null, ...faults, null, null]);
  expect(troubled.length - quiet.length).toBeGreaterThan(0);
  expect(troubled.length - quiet.length).toBeLessThanOrEqual(25);
});

test('an upstream that flaps is shown again at most every ten minutes, and each recovery at once', async () => {
  const events = await historyOf([...times(20, () => [failed(503), failed(503), null]).flat(), null]);
  const ends = events
    .filter(({ activityTaskCompletedEventAttributes: end }) => end)
    .map(({ eventTime }) => 1_000 * Number(eventTime!.seconds))
    // The create, and the end of the job.
    .slice(1, -1);
  const failing = ends.filter((_, i) => i % 2 === 0);
  expect(failing.length).toBeGreaterThan(3);
  expect(failing.filter((time, i) => time - (failing[i - 1] ?? 0) < 10 * MINUTE - 1_000)).toEqual([]);
  expect(ends).toHaveLength(2 * failing.length);
});

test('Retry-After replaces a shorter wait, at most an hour at a time, and pollNow does not go against it', async () => {
  upstream.readFaults.push(failed(429, 30 * MINUTE), failed(503, 7_200_000));
  const handle = await bench.start(input);
  await expect.poll(() => upstream.reads).toBe(1);
  await skipTimeBy(handle, '1 minute');
  await handle.signal(pollNowSignal);
  await skipTimeBy(handle, '20 minutes');
  await handle.signal(pollNowSignal);
  await skipTimeBy(handle, '1 minute');
  expect(upstream.reads).toBe(1);
  await skipTimeBy(handle, '10 minutes');
  await expect.poll(() => upstream.reads).toBe(2);
  // The batch of polls alone knows of this one.
  await handle.signal(pollNowSignal);
  await skipTimeBy(handle, '30 minutes');
  expect(upstream.reads).toBe(2);
  await skipTime(handle);
  expect(await handle.result()).toMatchObject({ outcome: 'completed', polls: 3 });
  const [first, second] = gaps(upstream.readTimes);
  expect(first).toBeGreaterThanOrEqual(30 * MINUTE);
  expect(second).toBeGreaterThanOrEqual(60 * MINUTE);
  expect(second).toBeLessThan(62 * MINUTE);
});

test('a message that is answered 404 within a minute of the create waits, and is sent again', async () => {
  upstream.show = () => ({ status: upstream.messages.length > 3 ? 'completed' : 'active' });
  upstream.messageFaults.push(...times(3, unknownJob));
  const handle = await bench.start(input);
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  await expect
    .poll(async () => (await handle.query(jobStateQuery)).waiting)
    .toMatchObject({ for: 'upstream', reason: 'upstream answered 404' });
  await skipTime(handle);
  expect(await handle.result()).toMatchObject({ outcome: 'completed', followUps: [{ id: 'a', state: 'sent' }] });
  expect(upstream.messages).toEqual(['go', 'go', 'go', 'go']);
});

test('a message that is answered 404 after a minute is rejected', async () => {
  upstream.show = () => ({ status: 'active' });
  upstream.messageFaults.push(...times(100, unknownJob));
  const handle = await bench.start({ ...input, deadline: '5 minutes', polling: { min: '1 minute' } });
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  await skipTime(handle);
  const error = '404: no such job';
  expect(await handle.result()).toMatchObject({ followUps: [{ id: 'a', state: 'rejected', error }] });
  // After 1, 2, 4, 8, 16 and 32 seconds.
  expect(upstream.messages).toHaveLength(7);
});

test('a message to an attached job that is answered 404 is rejected at once', async () => {
  upstream.messageFaults.push(unknownJob());
  const handle = await bench.start({ projectId: 'p1', jobId: 'gone' });
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  expect(await handle.result()).toMatchObject({ followUps: [{ id: 'a', state: 'rejected' }] });
  expect(upstream.messages).toHaveLength(1);
});
