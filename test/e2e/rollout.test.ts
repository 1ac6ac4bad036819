/** A roll-out and its reverse with production workers, the command line, and Temporal's own. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import { jsonLines, runCli } from '../cli/run-cli.js';
import { shared } from '../support/shared.js';
import { until } from '../support/worker-process.js';
import { useSystem } from './system.js';

const run = promisify(execFile);
const MOST_MS = 300_000;
const JOBS = 5;
const system = useSystem({ script: { activeMs: 100_000_000 } });

const rollOutOf = (deployment: string, ...args: string[]) => cli('--deployment', deployment, ...args);
const cli = (...args: string[]) => runCli(['rollout', ...args], { env: system.clientEnv(), mostMs: 150_000 });

test('a version is made current, the one before drains, its workers go, and back', { timeout: MOST_MS }, async () => {
  const { server, sandbox } = system;
  const deployment = `rollout-${randomUUID()}`;
  const settings = { WORKER_DEPLOYMENT: deployment };
  const rollOut = (...args: string[]) => rollOutOf(deployment, ...args);
  const first = system.startWorker({ ...settings, WORKER_BUILD_ID: '1.0.0' });
  const shown = await rollOut('1.0.0');
  expect(shown.stdout).toMatch(
    new RegExp(`^Deployment ${deployment}\n\nVERSION +STATE +OPEN RUNS\n1.0.0 +current +0\n`),
  );
  expect(shown.code).toBe(0);

  const jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
  const polling = { min: '1 hour', max: '1 hour' };
  const request = (key: number) => ({ key: `${key}`, projectId: deployment, prompt: 'Say hello', polling });
  const handles = await Promise.all(Array.from({ length: JOBS }, (_, key) => jobs.start(request(key))));
  for (const handle of handles)
    await until(async () => (await handle.state()).phase === 'watching', 'a job to be watched', first.output);

  // The version of this release, which nobody names.
  const second = system.startWorker(settings);
  const rolled = await rollOut('--this-release', '--wait', '--json');
  expect(rolled.code).toBe(0);
  const [report] = jsonLines(rolled.stdout) as [{ current: string; versions: object[] }];
  expect(report.current).toMatch(/^\d+\.\d+\.\d+-[0-9a-f]{12}$/);
  expect(report.versions).toEqual([
    { buildId: report.current, state: 'current', openRuns: JOBS, canGo: false },
    { buildId: '1.0.0', state: 'old', openRuns: 0, canGo: true },
  ]);
  expect(first.output()).toContain('Another version of the workers is current');

  // Back again by Temporal's own program; 1.0.0 still polls.
  const { path } = await shared('dev-server-program');
  const words = ['worker', 'deployment', 'set-current-version', '--deployment-name', deployment, '--build-id', '1.0.0'];
  await run(path, [...words, '--yes', '--address', server.address], { env: {} });
  const back = await rollOut('--wait');
  expect(back.stdout).toMatch(/^1\.0\.0 +current +5$/m);
  expect(back.stdout).toContain(`${report.current}: its workers can go, no open run needs them.`);
  second.signal('SIGTERM');
  expect(await second.ended).toBe(0);

  for (const handle of handles) {
    await handle.followUp('And a test', { id: 'one' });
    await until(async () => (await handle.state()).followUps[0]?.state === 'sent', 'the follow-up', first.output);
  }
  expect(await sandbox.creates({ projectId: deployment })).toHaveLength(JOBS);
  const failed = [first, second].map(({ output }) => output().match(/workflow task/gi));
  expect(failed).toEqual([null, null]);
  for (const handle of handles) await handle.cancel();
});

test('a recurring job and its lock go on over a roll-out, and an export runs', { timeout: MOST_MS }, async () => {
  const { server, sandbox } = system;
  const deployment = `recurring-${randomUUID()}`;
  const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-rollout-'));
  const settings = { WORKER_DEPLOYMENT: deployment, SNAPSHOTS_URL: pathToFileURL(folder).href };
  const first = system.startWorker({ ...settings, WORKER_BUILD_ID: '1' });
  await rollOutOf(deployment, '1');
  const jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
  const polling = { min: 1_000, max: 1_000 };
  await sandbox.addScript({ projectId: deployment, script: { activeMs: 60_000 } });
  const job = { projectId: deployment, name: 'nightly', prompt: 'Say hello', polling, settle: 0 };
  const schedule = await jobs.schedule({ ...job, every: '1 hour', paused: true });
  await schedule.trigger();
  const fates = async () => {
    const found: string[] = [];
    for await (const { fate } of schedule.runs()) found.push(fate);
    return found;
  };
  await until(async () => (await fates())[0] === 'running', 'the run', first.output);

  const second = system.startWorker({ ...settings, WORKER_BUILD_ID: '2' });
  const { stdout } = await rollOutOf(deployment, '2', '--wait');
  // The job and the lock; the run that waits for its job is pinned to nothing.
  expect(stdout).toMatch(/^2 +current +2$/m);
  first.signal('SIGTERM');
  expect(await first.ended).toBe(0);
  await until(async () => (await fates())[0] === 'ended', 'its end', second.output, 120_000);
  await schedule.remove();

  const range = { projectId: deployment, dateFrom: '2026-01-01', dateTo: '2026-01-02' };
  const { snapshots } = await (await jobs.exportVisitors(range)).result();
  expect(snapshots).toHaveLength(1);
  for (const worker of [first, second]) expect(worker.output()).not.toMatch(/workflow task/i);
  await rm(folder, { recursive: true });
});

test('a version without workers, and a deployment that nobody knows, are refused', { timeout: MOST_MS }, async () => {
  const unknown = await cli('--deployment', 'nobody');
  expect(unknown).toMatchObject({ code: 1, stdout: '' });
  expect(unknown.stderr).toMatch(/^agent-jobs: no Worker Deployment found with name 'nobody'/);
  expect(await cli('1.0.0')).toMatchObject({ code: 2, stderr: expect.stringContaining('WORKER_DEPLOYMENT') });
  const both = await cli('1.0.0', '--this-release', '--deployment', 'd');
  expect(both).toMatchObject({ code: 2, stderr: expect.stringContaining('not both') });
});
