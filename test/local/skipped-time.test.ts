/** A system whose time is skipped: Temporal's dev server, the built worker and the sandbox. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { startTestSystem, TestSystem } from '../../src/testing.js';
import { shared } from '../support/shared.js';
import { distFolder } from '../support/worker-process.js';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Few reads, so that a day is short. */
const polling = { max: '1 hour', ratio: 1 };
vi.setConfig({ testTimeout: 120_000 });

let system: TestSystem;
beforeAll(async () => {
  vi.stubEnv('TEMPORAL_CLI_PATH', (await shared('dev-server-program')).path);
  // The built program has a built worker beside it.
  const built = (await import(join(distFolder, 'testing.js'))) as { startTestSystem: typeof startTestSystem };
  system = await built.startTestSystem({ timeSkipping: true });
});
afterAll(() => system?.close());

const start = (key: string, more: object = {}) =>
  system.jobs.start({ key, projectId: 'acme', prompt: key, polling, ...more });
const script = (key: string, activeMs: number) =>
  system.sandbox.addScript({ promptIncludes: key, script: { activeMs } });

test('a deadline of a day ends a job that never ends, and none that ends before it', async () => {
  await script('endless', 100 * DAY_MS);
  await script('short', 8 * HOUR_MS);
  await script('late', 25 * HOUR_MS);
  const jobs = [];
  for (const key of ['endless', 'short', 'late']) jobs.push(await start(key, { deadline: '1 day' }));
  await system.skip('23 hours');
  for (const key of [0, 2]) expect(await jobs[key]!.state()).toMatchObject({ phase: 'watching' });
  await system.skip('2 hours');
  const outcomes = await Promise.all(jobs.map(async (job) => (await job.result()).outcome));
  expect(outcomes).toEqual(['timedOut', 'completed', 'timedOut']);
});

test('a job lingers for follow-ups as long as it was told, and takes one in that time', async () => {
  await script('linger', HOUR_MS);
  const job = await start('linger', { linger: '3 hours' });
  await system.skip('2 hours');
  expect(await job.state()).toMatchObject({ phase: 'lingering' });
  await job.followUp('One more thing');
  await expect.poll(() => system.sandbox.messages()).toMatchObject([{ prompt: 'One more thing' }]);
  await system.skip('1 hour');
  await system.skip('5 hours');
  expect(await job.result()).toMatchObject({ outcome: 'completed' });
});

test('the job of a recurring run goes on while its run waits for it', async () => {
  await script('nightly', 5 * HOUR_MS);
  const settings = { projectId: 'acme', name: 'nightly', prompt: 'nightly {date}', cron: '0 2 * * *', polling };
  const recurring = await system.jobs.schedule(settings);
  await recurring.trigger();
  const fates = async () => (await recurring.lastRuns(1)).map(({ fate, outcome }) => fate ?? outcome);
  await expect.poll(fates).toEqual(['running']);
  await system.skip('6 hours');
  await expect.poll(async () => recurring.lastRuns(1)).toMatchObject([{ fate: 'ended', outcome: 'completed' }]);
  await recurring.remove();
});

test('an export that the upstream throttles goes on when the hour is over', async () => {
  await system.sandbox.setVisitors({ rows: 2_600 }); // 12 requests
  await system.sandbox.setRateLimits({ visitors: 8 });
  const range = { projectId: 'acme', dateFrom: '2026-01-01', dateTo: '2026-01-02' };
  const exported = await system.jobs.exportVisitors(range);
  await expect.poll(async () => (await system.sandbox.counts()).operations.visitors.responses['429']).toBe(1);
  let isOver = false;
  const result = exported.result().finally(() => (isOver = true));
  // How soon it asks again depends on what it had under way.
  while (!isOver) await system.skip('1 hour');
  expect((await result).snapshots).toMatchObject([{ rows: 2_600 }]);
});

test('skips one after the other move the time by their sum, however they are called', async () => {
  const before = Date.parse(await system.sandbox.now());
  await Promise.all([system.skip(500), system.skip('2 seconds'), system.skip(0)]);
  expect(Date.parse(await system.sandbox.now()) - before).toBeGreaterThanOrEqual(2_500);
});

test.each(['a while', -1, Number.NaN, null])('%s is no time to skip', async (duration) => {
  await expect(system.skip(duration as never)).rejects.toMatchObject({ name: 'InvalidInputError', field: 'duration' });
});
