import { randomUUID } from 'node:crypto';
import { defineSearchAttributeKey } from '@temporalio/common';
import { describe, expect as expectNow, test as base, vi } from 'vitest';
import {
  followUpSignal,
  jobStateQuery,
  pollNowSignal,
  resolveUnknownUpdate,
  attributeType,
  SEARCH_ATTRIBUTE,
  sendFollowUpUpdate,
  type AgentJobInput,
} from '../../src/contract.js';
import { inputHash } from '../../src/agent-job/input.js';
import { agentJobStartOptions } from '../../src/agent-job/start-options.js';
import { connectPrivateDevServer } from '../support/dev-server.js';
import { failedTasks } from '../support/failed-tasks.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { throttled } from '../support/outcomes.js';
import { ObservedUpstream } from '../support/observed-upstream.js';
import { resetRun } from '../support/reset.js';
import { useForFile } from '../support/use.js';
import { CONTEXT_TEXT, contextsOfActivities, tracedClient } from '../support/traced-client.js';

const server = useForFile(() =>
  connectPrivateDevServer({ dynamicConfig: { 'limit.historyCount.suggestContinueAsNew': '40' } }),
);

/** Each test has a worker of its own, so that all can wait at once. */
const test = base.extend<{ upstream: ObservedUpstream; bench: JobBench }>({
  // oxlint-disable-next-line no-empty-pattern -- vitest reads the fixtures' names there
  upstream: async ({}, use) => use(new ObservedUpstream()),
  bench: async ({ upstream }, use) => {
    const bench = await startJobBench(server, upstream);
    await use(bench);
    await bench.stop();
  },
});

type Handle = ReturnType<typeof latest>;

/** In a project, and so with a queue, of its own. Follows the workflow id, whatever its run. */
async function start(bench: JobBench, input: object) {
  const { workflowId, firstExecutionRunId } = await bench.start({ projectId: randomUUID(), settle: 0, ...input });
  return { handle: latest(workflowId), firstRunId: firstExecutionRunId };
}
const latest = (workflowId: string) =>
  server.client.workflow.getHandle<(input: unknown) => Promise<{ [key: string]: unknown }>>(workflowId);
const stateOf = (handle: Handle) => handle.query(jobStateQuery);

/** Grows the history with polls until a new run goes on. */
async function untilNextRun(handle: Handle, signalEveryMs = 0): Promise<void> {
  const { runId } = await handle.describe();
  let signaledAt = -Infinity;
  const isNext = async () => {
    if (performance.now() - signaledAt >= signalEveryMs) {
      await handle.signal(pollNowSignal);
      signaledAt = performance.now();
    }
    return (await handle.describe()).runId !== runId;
  };
  await vi.waitFor(async () => expectNow(await isNext()).toBe(true), { interval: 300, timeout: 120_000 });
}

/** Whether the newest run is one that the retry policy started. */
async function isRetried(handle: Handle): Promise<boolean> {
  const { events } = await handle.fetchHistory();
  return (events![0]!.workflowExecutionStartedEventAttributes?.attempt ?? 1) > 1;
}

async function noTaskFailed(workflowId: string, runId: string): Promise<void> {
  const { events } = await server.client.workflow.getHandle(workflowId, runId).fetchHistory();
  expectNow(failedTasks(events)).toEqual([]);
}

describe.concurrent('a new run', () => {
  test('lets an end go on to stand', async ({ bench, upstream, expect }) => {
    upstream.show = () => ({ status: 'completed', prLink: null });
    const { handle, firstRunId } = await start(bench, { prompt: 'Fix it', settle: '20 seconds' });
    await expect.poll(async () => (await stateOf(handle)).waiting?.for).toBe('settle');
    const { since } = (await stateOf(handle)).waiting!;
    await untilNextRun(handle);
    expect((await stateOf(handle)).waiting).toMatchObject({ for: 'settle', since });
    expect(await handle.result()).toMatchObject({ outcome: 'completed', prLink: null });
    await noTaskFailed(handle.workflowId, firstRunId);
  });

  test('has the trace context of the caller that started the job', async ({ bench, upstream, expect }) => {
    upstream.show = () => ({ status: 'active' });
    const { workflowId } = await tracedClient(server.client).workflow.start('agentJob', {
      taskQueue: bench.taskQueue,
      workflowId: `agent-job/traced/${randomUUID()}`,
      args: [{ projectId: randomUUID(), prompt: 'Fix it', settle: 0 }],
    });
    const handle = latest(workflowId);
    await untilNextRun(handle);
    upstream.show = () => ({ status: 'completed' });
    await handle.result();
    expect(new Set(contextsOfActivities(await handle.fetchHistory()))).toEqual(new Set([CONTEXT_TEXT]));
  });

  test('memo, search attributes, start, ids and the deadline’s clock go on', async ({ bench, upstream, expect }) => {
    const prLink = 'https://github.example/a/b/pull/1';
    upstream.show = () => ({ status: 'active', prLink });
    const metadata = { correlationId: '4711' };
    const labels = { batch: 'monday', tags: ['a', 'b'], metadata };
    const input = { projectId: 'p1', prompt: 'Fix it', deadline: '40 seconds', settle: 0, priority: 1, ...labels };
    const options = agentJobStartOptions(input as AgentJobInput, { key: randomUUID(), taskQueue: bench.taskQueue });
    const { workflowId } = await server.client.workflow.start('agentJob', options);
    const handle = latest(workflowId);
    await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
    await expect.poll(async () => (await stateOf(handle)).followUps[0]?.state).toBe('sent');
    await expect.poll(async () => (await stateOf(handle)).job?.prLink).toBe(prLink);
    const before = await stateOf(handle);
    await untilNextRun(handle);
    const after = await stateOf(handle);
    expect(after).toMatchObject({ ...before, waiting: { for: 'poll' }, polls: expect.any(Number) });
    expect(after.polls).toBeGreaterThanOrEqual(before.polls);
    const { typedSearchAttributes, memo, priority } = await handle.describe();
    expect(priority).toMatchObject({ priorityKey: 1, fairnessKey: 'p1' });
    const hash = inputHash({ projectId: 'p1', prompt: 'Fix it' });
    expect(memo).toEqual({ inputHash: hash, title: 'p1: Fix it', metadata });
    const shown = Object.values(SEARCH_ATTRIBUTE).map((name) =>
      typedSearchAttributes.get(
        defineSearchAttributeKey(name, attributeType(name) === 'KeywordList' ? 'KEYWORD_LIST' : 'KEYWORD'),
      ),
    );
    expect(shown).toEqual(['p1', 'watching', 'active', prLink, undefined, 'monday', ['a', 'b'], undefined, 'job-1']);
    expect(await handle.query('__temporal_workflow_metadata')).toMatchObject({
      currentDetails: expect.stringContaining('Fix it'),
    });
    const result = (await handle.result()) as { outcome: string; startedAt: string; finishedAt: string };
    expect(result).toMatchObject({ outcome: 'timedOut', startedAt: before.startedAt, tags: ['a', 'b'], metadata });
    expect(Date.parse(result.finishedAt) - Date.parse(before.startedAt)).toBeGreaterThanOrEqual(40_000);
  });

  test('a queue as large as it may be is carried, or waited for, and never fails a task', async ({
    bench,
    upstream,
    expect,
  }) => {
    upstream.show = () => ({ status: upstream.messages.length >= 6 ? 'completed' : 'active' });
    upstream.messageFaults.push(throttled('429', 15_000));
    const { handle, firstRunId } = await start(bench, { prompt: 'x'.repeat(500_000) });
    await expect.poll(() => upstream.reads).toBeGreaterThan(0);
    for (let i = 0; i < 5; i++)
      await handle.signal(followUpSignal, { prompt: `${i}${'y'.repeat(200_000)}`, id: `${i}` });
    await handle.signal(followUpSignal, { prompt: 'z'.repeat(200_000), id: 'too much' });
    for (let i = 0; i < 6; i++) {
      await handle.signal(pollNowSignal);
      await new Promise((resolve) => setTimeout(resolve, 800));
    }
    expect((await stateOf(handle)).followUps.at(-1)).toEqual({
      id: 'too much',
      state: 'abandoned',
      error: 'queue full',
    });
    const result = (await handle.result()) as { usedFollowUpIds: string[] };
    expect(result.usedFollowUpIds).toEqual(['0', '1', '2', '3', '4']);
    expect((await handle.describe()).runId).not.toBe(firstRunId);
    expect(new Set(upstream.messages).size).toBe(5);
    await noTaskFailed(handle.workflowId, firstRunId);
  });

  test('a pollNow that meets continue-as-new is answered by a read, and an end stands on from its first read', async ({
    bench,
    upstream,
    expect,
  }) => {
    upstream.show = () => ({ status: 'completed' });
    const hourly = { min: '1 hour', max: '1 hour' };
    const { handle } = await start(bench, { prompt: 'Fix it', polling: hourly, settle: '1 hour' });
    await expect.poll(async () => (await stateOf(handle)).waiting?.for).toBe('settle');
    const { waiting } = await stateOf(handle);
    const { runId } = await handle.describe();
    let askedAt = 0;
    for (let i = 0; i < 100 && (await handle.describe()).runId === runId; i++) {
      askedAt = Date.now();
      await handle.signal(pollNowSignal);
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    expect((await handle.describe()).runId).not.toBe(runId);
    await expect.poll(() => upstream.readTimes.at(-1)).toBeGreaterThanOrEqual(askedAt);
    expect(await stateOf(handle)).toMatchObject({ phase: 'watching', waiting });
    await handle.terminate();
  });

  test('carries out what a person was asked before it, and a reset of it asks again', async ({
    bench,
    upstream,
    expect,
  }) => {
    upstream.show = () => ({ status: 'active' });
    const { handle } = await start(bench, { prompt: 'Fix it' });
    await expect.poll(() => upstream.reads).toBeGreaterThan(0);
    await resetRun(server, handle.workflowId, (done) => done[0]!);
    await expect.poll(async () => (await stateOf(handle)).unknown?.kind).toBe('create');
    await untilNextRun(handle);
    await handle.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'retry' }] });
    await expect.poll(async () => (await stateOf(handle)).phase).toBe('watching');
    expect(upstream.created).toHaveLength(2);
    await resetRun(server, handle.workflowId, (done) => done[0]!);
    await expect.poll(async () => (await stateOf(handle)).unknown?.reason).toContain('reset');
    expect(upstream.created).toHaveLength(2);
    await handle.terminate();
  });

  test('a continued run that Temporal’s retry policy started again asks before each write', async ({
    bench,
    upstream,
    expect,
  }) => {
    upstream.show = () => ({ status: 'active' });
    const { workflowId } = await bench.start(
      { projectId: 'retried', prompt: 'Fix it', settle: 0 },
      { workflowRunTimeout: '50 seconds', retry: { maximumAttempts: 3, initialInterval: '1 second' } },
    );
    const handle = latest(workflowId);
    await expect.poll(() => upstream.reads).toBeGreaterThan(0);
    // The next run begins with no more than one of the signals: with many it would soon continue as new itself.
    await untilNextRun(handle, 2_000);
    let id = '';
    // On a busy machine it may do so all the same, once: the next run knows all that it carries.
    for (let round = 0; id === '' || !(await isRetried(handle)); round++) {
      id = `a${round}`;
      const { runId } = await handle.describe();
      await handle.executeUpdate(sendFollowUpUpdate, { args: [{ prompt: 'go', id }] });
      expect(upstream.messages).toHaveLength(round + 1);
      await expect.poll(async () => (await handle.describe()).runId).not.toBe(runId);
    }
    const sent = [...upstream.messages];
    expect((await stateOf(handle)).jobId).toBe('job-1');
    // Its caller got `sent`, and repeats it all the same.
    await handle.signal(followUpSignal, { prompt: 'go', id });
    await expect.poll(async () => (await stateOf(handle)).unknown?.reason).toContain('Temporal started this run again');
    // The next runs of the chain do not know it either.
    await handle.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'delivered' }] });
    await untilNextRun(handle);
    await handle.signal(followUpSignal, { prompt: 'more', id: 'b' });
    await expect.poll(async () => (await stateOf(handle)).unknown?.followUpId).toBe('b');
    expect(upstream.messages).toEqual(sent);
    await handle.terminate();
  });
});
