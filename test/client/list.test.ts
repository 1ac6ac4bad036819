import { randomUUID } from 'node:crypto';
import type { WorkflowIdReusePolicy } from '@temporalio/common';
import { describe, expect, test } from 'vitest';
import type { JobFilter, JobSummary } from '../../src/starter.js';
import { listJobs } from '../../src/client/agent-job/list.js';
import { agentJobStartOptions } from '../../src/agent-job/start-options.js';
import { agentJobWorkflowId } from '../../src/contract.js';
import { gathered, QUICK, startJobServer } from './job-server.js';
import { useForFile } from '../support/use.js';

const server = useForFile(startJobServer);

const listed = (filter: JobFilter): Promise<JobSummary[]> => gathered(server.jobs.list(filter));
const idsOf = (rows: JobSummary[]): string[] => rows.map(({ workflowId }) => workflowId);

/** Starts without a worker: only what Temporal lists matters. */
async function startIdle(
  projectId: string,
  key: string,
  options: object = {},
  workflowIdReusePolicy: WorkflowIdReusePolicy = 'REJECT_DUPLICATE',
): Promise<string> {
  const start = agentJobStartOptions(
    { projectId, prompt: `Do ${key}\nin detail`, ...options },
    { key, taskQueue: 'nobody' },
  );
  return (await server.client.workflow.start('agentJob', { ...start, workflowIdReusePolicy })).workflowId;
}

async function listedAll(projectId: string, count: number): Promise<void> {
  await expect.poll(async () => (await listed({ projectId })).length).toBe(count);
}

test('a row shows what a job is', async () => {
  const projectId = `rows-${randomUUID()}`;
  const metadata = { correlationId: '4711' };
  const workflowId = await startIdle(projectId, 'k', { tags: ['a', 'b'], metadata, batch: 'night' });
  await listedAll(projectId, 1);
  const { runId } = await server.client.workflow.getHandle(workflowId).describe();
  expect(await listed({ projectId })).toEqual([
    {
      workflowId,
      runId,
      projectId,
      title: `${projectId}: Do k`,
      phase: 'creating',
      batch: 'night',
      tags: ['a', 'b'],
      metadata,
      status: null,
      outcome: null,
      waitingFor: null,
      jobId: null,
      prLink: null,
      workflowStatus: 'RUNNING',
      startedAt: expect.any(String) as string,
      endedAt: null,
    },
  ]);
});

describe('one row a job', () => {
  test('a job that a follow-up attached anew is one row, by its newest run', async () => {
    const projectId = `again-${randomUUID()}`;
    await server.sandbox.addScript({ promptIncludes: projectId, script: { followUp: [{ status: 'failed' }] } });
    const job = await server.jobs.start({
      projectId,
      key: 'k',
      prompt: `Fix ${projectId}`,
      ...QUICK,
      settle: 1_000,
      batch: projectId,
    });
    await job.result();
    await job.sendFollowUp('go on', { id: 'one' });
    expect(await job.result()).toMatchObject({ outcome: 'failed' });
    await expect.poll(async () => (await listed({ projectId })).map(({ outcome }) => outcome)).toEqual(['failed']);
    const [row] = await listed({ projectId });
    expect(row).toMatchObject({ workflowId: job.workflowId, title: `${projectId}: Fix ${projectId}` });
    // By its newest run that fits.
    expect(await listed({ projectId, outcome: 'completed' })).toHaveLength(1);
    expect(await listed({ batch: projectId })).toHaveLength(1);
  });
});

const TAGS = ['night', 'two words', "it's", "'lead", "trail'", 'say "hi"', 'back\\slash', "x' OR '1'='1"];

const LABELS = [`it's "50 %" \\ `, `"quoted" `, `\\back `, `100%_\u{1F600} `, `'); DROP `, `'`];

test('a batch finds its jobs and no others, whatever its characters', async () => {
  const projectId = `batches-${randomUUID()}`;
  const batches = LABELS.map((label) => `${label}${randomUUID()}${label}`);
  for (const [i, batch] of batches.entries()) {
    await startIdle(projectId, `k${i}`, { batch });
    await startIdle(projectId, `x${i}`, { batch: `${batch}x` });
  }
  await listedAll(projectId, 2 * batches.length);
  for (const [i, batch] of batches.entries()) {
    const found = [agentJobWorkflowId(projectId, `k${i}`)];
    expect(idsOf(await listed({ batch, isRunning: true })), batch).toEqual(found);
    expect(idsOf(await listed({ batch, projectId })), batch).toEqual(found);
    expect(await listed({ batch, projectId: 'another' })).toEqual([]);
  }
});

test('a tag finds its jobs and no others, whatever its characters', async () => {
  const projectId = `tags-${randomUUID()}`;
  for (const tag of [...TAGS, 'a', 'Night', 'two']) await startIdle(projectId, tag, { tags: [tag, 'all'] });
  await listedAll(projectId, TAGS.length + 3);
  for (const tag of TAGS) {
    const found = await listed({ projectId, tags: [tag] });
    expect(idsOf(found), tag).toEqual([agentJobWorkflowId(projectId, tag)]);
  }
  expect(await listed({ projectId, tags: ['night', 'two words'] })).toEqual([]);
});

test('times bound the start and the end', async () => {
  const projectId = `times-${randomUUID()}`;
  const first = await startIdle(projectId, 'first');
  await new Promise((done) => setTimeout(done, 20));
  const between = new Date();
  await new Promise((done) => setTimeout(done, 20));
  const second = await startIdle(projectId, 'second');
  await server.client.workflow.getHandle(first).terminate();
  await expect.poll(async () => idsOf(await listed({ projectId, endedAfter: between }))).toEqual([first]);
  await listedAll(projectId, 2);
  expect(idsOf(await listed({ projectId, startedAfter: between.toISOString() }))).toEqual([second]);
  expect(idsOf(await listed({ projectId, startedBefore: between }))).toEqual([first]);
  await expect(listed({ startedAfter: 'yesterday' })).rejects.toThrow(/^startedAfter must be a Date/);
});

test('a job whose id was started again is one row, and comes first by its newest run in pages', async () => {
  const projectId = `pages-${randomUUID()}`;
  for (let i = 0; i < 5; i++) await startIdle(projectId, `k${i}`);
  await server.client.workflow.getHandle(agentJobWorkflowId(projectId, 'k0')).terminate();
  await startIdle(projectId, 'k0', {}, 'ALLOW_DUPLICATE');
  const counted = async () => (await server.client.workflow.count(`AgentJobProject = '${projectId}'`)).count;
  await expect.poll(counted).toBe(6);
  const inOrder = ['k0', 'k4', 'k3', 'k2', 'k1'].map((key) => agentJobWorkflowId(projectId, key));
  const rows = await gathered(listJobs(server.client, { projectId }, { pageSize: 2 }));
  expect(idsOf(rows)).toEqual(inOrder);
  expect(rows[0]!.workflowStatus).toBe('RUNNING');
  const paged: string[] = [];
  for (let cursor: string | null | undefined; cursor !== null;) {
    const page = await server.jobs.listPage({ projectId }, { pageSize: 2, cursor });
    paged.push(...idsOf(page.jobs));
    cursor = page.nextCursor;
  }
  expect([...new Set(paged)]).toEqual(inOrder);
});

test('a cursor that was changed, one that is none and a wrong size are invalid', async () => {
  const projectId = `cursor-${randomUUID()}`;
  for (const key of ['a', 'b']) await startIdle(projectId, key);
  await listedAll(projectId, 2);
  const { nextCursor } = await server.jobs.listPage({ projectId }, { pageSize: 1 });
  expect(nextCursor).not.toBeNull();
  const message = 'cursor must be the nextCursor of a page of the same list';
  const madeUp = Buffer.from('made up').toString('base64url');
  for (const cursor of [nextCursor!.slice(0, -4), `${nextCursor}AAAA`, madeUp, 'x', '', 7 as never]) {
    const page = server.jobs.listPage({ projectId }, { cursor });
    await expect(page, String(cursor)).rejects.toMatchObject({ name: 'InvalidInputError', message });
  }
  for (const pageSize of [0, 1_001, 1.5]) {
    await expect(server.jobs.listPage({}, { pageSize })).rejects.toThrow(/^pageSize must be a whole number/);
  }
});
