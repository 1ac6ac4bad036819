import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { followUpSignal, jobStateQuery, resolveUnknownUpdate } from '../../src/contract.js';
import { useDevServer } from '../support/job-tests.js';

const { server, upstream, bench } = useDevServer();
const RETRIED = { workflowRunTimeout: '20 seconds', retry: { maximumAttempts: 2, initialInterval: '1 second' } };

/** The newest run of a workflow id, as callers and operators address it. */
const latest = (workflowId: string) => server.client.workflow.getHandle(workflowId);
const stateOf = (workflowId: string) => latest(workflowId).query(jobStateQuery);

async function untilAnotherRun(workflowId: string, firstRunId: string): Promise<void> {
  await expect.poll(async () => (await latest(workflowId).describe()).runId).not.toBe(firstRunId);
}

test('a run that Temporal’s retry policy started again asks before it creates, whatever the policy', async () => {
  upstream.show = () => ({ status: 'active' });
  // The run time-out passes for all of them at once.
  const asking = ['ask', 'fail', 'retry'].map(async (onUnknownOutcome) => {
    const prompt = `under ${onUnknownOutcome}`;
    const sent = () => upstream.created.filter((created) => created === prompt);
    const { workflowId, firstExecutionRunId } = await bench.start(
      { projectId: 'p1', prompt, onUnknownOutcome },
      RETRIED,
    );
    await untilAnotherRun(workflowId, firstExecutionRunId);
    await expect.poll(async () => (await stateOf(workflowId)).phase).toBe('needsAttention');
    expect((await stateOf(workflowId)).unknown).toMatchObject({
      kind: 'create',
      reason: expect.stringContaining('Temporal started this run again'),
    });
    expect(sent()).toHaveLength(1);
    await latest(workflowId).executeUpdate(resolveUnknownUpdate, { args: [{ action: 'retry' }] });
    await expect.poll(sent).toHaveLength(2);
  });
  await Promise.all(asking);
});

test('the next run of a cron schedule asks before it creates, and before each follow-up', async () => {
  const { workflowId, firstExecutionRunId } = await bench.start(
    { projectId: `p ${randomUUID()}`, prompt: 'Fix it' },
    { cronSchedule: '@every 2s' },
  );
  await untilAnotherRun(workflowId, firstExecutionRunId);
  await expect.poll(async () => (await stateOf(workflowId)).phase).toBe('needsAttention');
  expect(upstream.created).toHaveLength(1);
  upstream.show = () => ({ status: 'active' });
  const adopt = { action: 'adopt', jobId: 'job-1' } as const;
  await latest(workflowId).executeUpdate(resolveUnknownUpdate, { args: [adopt] });
  await latest(workflowId).signal(followUpSignal, { prompt: 'go', id: 'a' });
  await expect
    .poll(async () => (await stateOf(workflowId)).unknown)
    .toMatchObject({ followUpId: 'a', reason: expect.stringContaining('Temporal started this run again') });
  expect(upstream.messages).toEqual([]);
});

test('a run that a newer release continued is left to a worker of that release', async () => {
  // Cron is the one way to give a run that continues another an input of one's own.
  const continued = { version: 99, jobs: [] };
  const input = { projectId: 'p1', jobId: 'job-1', continued };
  const { workflowId, firstExecutionRunId } = await bench.start(input, { cronSchedule: '@every 2s' });
  await untilAnotherRun(workflowId, firstExecutionRunId);
  const failures = async () => {
    const { events } = await latest(workflowId).fetchHistory();
    return events!.flatMap((e) => e.workflowTaskFailedEventAttributes?.failure?.message ?? []);
  };
  await expect.poll(failures).toContainEqual(expect.stringContaining('a newer release continued this workflow'));
  expect((await latest(workflowId).describe()).status.name).toBe('RUNNING');
  expect(upstream.reads).toBe(1);
});
