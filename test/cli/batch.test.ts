import { randomUUID } from 'node:crypto';
import { expect, test, vi } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import { startJobServer } from '../client/job-server.js';
import { Runbook } from '../support/runbook.js';
import { envOf, jsonLines, type CliRun } from './run-cli.js';
import { runInProcess } from './run-in-process.js';
import { useForFile } from '../support/use.js';

const PATIENCE = { timeout: 120_000, interval: 500 };

const server = useForFile(startJobServer);

function cli(args: string[], options: { stdin?: string } = {}): Promise<CliRun> {
  return runInProcess(args, { ...options, env: envOf(server) });
}

/** Starts jobs of one batch, which live for `activeMs`, and waits until Temporal lists them. */
async function startBatch(
  count: number,
  { activeMs = 300, starter = server.jobs, batch = `it's batch ${randomUUID()}` } = {},
) {
  await server.sandbox.addScript({ promptIncludes: batch, script: { activeMs } });
  const { projectId } = server;
  const polling = { min: 1_000, max: 1_000 };
  const jobs = await Promise.all(
    Array.from({ length: count }, (_, i) =>
      starter.start({ projectId, key: `${batch} ${i}`, prompt: `${batch} ${i}`, batch, polling, settle: 0 }),
    ),
  );
  const listed = async () => {
    const found: string[] = [];
    for await (const { workflowId } of server.jobs.list({ batch })) found.push(workflowId);
    return found;
  };
  await expect.poll(listed).toHaveLength(count);
  return { batch, jobs };
}

const idsOf = (lines: { workflowId?: unknown }[]) => lines.map(({ workflowId }) => String(workflowId)).toSorted();

test('wait --batch prints each end and exits 0 once every job has succeeded; list shows the batch alone', async () => {
  const { batch, jobs } = await startBatch(3);
  const { code, stdout, stderr } = await cli(['wait', '--batch', batch, '--json']);
  const lines = jsonLines(stdout);
  expect(idsOf(lines)).toEqual(idsOf(jobs));
  expect(lines.map(({ outcome }) => outcome)).toEqual(['completed', 'completed', 'completed']);
  expect(stderr).toContain('3 jobs ended: 3 completed');
  expect(code).toBe(0);
  const listed = jsonLines((await cli(['list', '--batch', batch, '--json'])).stdout);
  expect(listed.map((job) => job['batch'])).toEqual([batch, batch, batch]);
});

test('list --json lists all unless a limit is given; --ended-since takes those that ended later', async () => {
  const before = new Date().toISOString();
  // No worker serves them: that they are there, and end, is what counts.
  const starter = new AgentJobs({ client: server.client, taskQueue: `nobody-${randomUUID()}` });
  const { batch, jobs } = await startBatch(101, { starter });
  const args = ['list', '--batch', batch];
  // A busy server may not answer in the command's time: then it says so, and is called again.
  const list = (...more: string[]) =>
    vi.waitFor(async () => {
      const told = await cli([...args, ...more]);
      expect(told.code).toBe(0);
      return told;
    }, PATIENCE);
  expect(jsonLines((await list('--json')).stdout)).toHaveLength(101);
  const cut = await list('--json', '--limit', '7');
  expect(jsonLines(cut.stdout)).toHaveLength(7);
  for (const { stderr } of [cut, await list()]) expect(stderr).toContain('there are more; --limit 0 lists all');
  await Promise.all(jobs.map(({ workflowId }) => server.client.workflow.getHandle(workflowId).terminate()));
  const ended = async (since: string) => jsonLines((await list('--ended-since', since, '--json')).stdout).length;
  await expect.poll(() => ended(before)).toBe(101);
  expect(await ended('2090-01-01')).toBe(0);
  expect((await cli([...args, '--ended-since', 'soon'])).code).toBe(2);
});

test('the commands of the page steer and end all jobs of a batch, each once; wait then exits 13', async () => {
  const { jobs } = await startBatch(3, { activeMs: 3_600_000, batch: 'spring-cleaning' });
  await Promise.all(jobs.map((job) => expect.poll(async () => (await job.state()).jobId).not.toBeNull()));
  const jobIds = await Promise.all(jobs.map(async (job) => (await job.state()).jobId!));
  const page = await Runbook.open('docs/recipes.md', envOf(server));
  const sent = [{ id: 'tests', state: 'sent' }];
  for (const _ of ['first', 'again']) {
    await page.run('temporal workflow signal');
    for (const job of jobs) await expect.poll(async () => (await job.state()).followUps).toEqual(sent);
  }
  await page.run('temporal workflow cancel');
  const waited = await cli(['wait', '--batch', 'spring-cleaning']);
  expect(waited.stderr).toContain('3 jobs ended: 3 Canceled');
  expect(waited.code).toBe(13);
  for (const jobId of jobIds) expect(await server.sandbox.messages({ jobId })).toHaveLength(1);
});
