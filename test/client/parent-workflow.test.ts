import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { joinAgentJob } from '../../src/activities/agent-job/join-job.js';
import { inputHash } from '../../src/agent-job/input.js';
import type { AgentJobResult } from '../../src/starter.js';
import { pollNowSignal, type AgentJobInput } from '../../src/contract.js';
import { connectPrivateDevServer } from '../support/dev-server.js';
import { useForFile } from '../support/use.js';
import { bundleOf, createTestWorker } from '../support/worker.js';
import { QUICK, startJobServer } from './job-server.js';
import type { Ticket, TicketEnd } from './parent-workflows/run-job.js';

const workflowsPath = fileURLToPath(new URL('./parent-workflows/run-job.ts', import.meta.url));

// A long history is short here, so that a job of a few polls continues as new.
const server = useForFile(async () =>
  startJobServer(await connectPrivateDevServer({ dynamicConfig: { 'limit.historyCount.suggestContinueAsNew': '40' } })),
);
let parentWorker: Worker;
let running: Promise<void>;
const parentTaskQueue = `tickets-${randomUUID()}`;

beforeAll(async () => {
  parentWorker = await createTestWorker({
    connection: server.nativeConnection,
    taskQueue: parentTaskQueue,
    workflowsPath,
    activities: {},
  });
  running = parentWorker.run();
});
afterAll(async () => {
  parentWorker.shutdown();
  await running;
});

type Parent = 'handleTicket' | 'runOnly' | 'reviewTicket';

/** A ticket for a job of its own, which the upstream works on for `activeMs`. */
async function ticket(activeMs = 300): Promise<Ticket & { workflowId: string; prompt: string }> {
  const key = randomUUID();
  const prompt = `Ticket ${key}`;
  await server.sandbox.addScript({ promptIncludes: prompt, script: { activeMs } });
  const job = { projectId: server.projectId, prompt, ...QUICK };
  const { workflowId } = server.jobs.handle({ projectId: server.projectId, key });
  return { job, place: { key, taskQueue: server.taskQueue }, workflowId, prompt };
}

function startParent(parent: Parent, { job, place }: Ticket) {
  return server.client.workflow.start<(input: Ticket) => Promise<TicketEnd | AgentJobResult[]>>(parent, {
    workflowId: `${parent}-${randomUUID()}`,
    taskQueue: parentTaskQueue,
    args: [{ job, place }],
  });
}

async function untilPhase(workflowId: string, phase: string): Promise<void> {
  const job = server.jobs.handle(workflowId);
  await expect.poll(async () => (await job.state().catch(() => null))?.phase).toBe(phase);
}

/** Until the parent waits by the activity: its attempt has begun. */
async function untilJoining(parent: Awaited<ReturnType<typeof startParent>>): Promise<void> {
  await expect.poll(async () => (await parent.describe()).raw.pendingActivities?.[0]?.attempt ?? 0).toBeGreaterThan(0);
}

async function failureOf(parent: Awaited<ReturnType<typeof startParent>>): Promise<unknown> {
  const error: unknown = await parent.result().catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(WorkflowFailedError);
  return (error as WorkflowFailedError).cause;
}

const creates = (prompt: string) => server.sandbox.creates({ projectId: server.projectId, promptIncludes: prompt });

/** A ticket whose job the upstream works on until `complete`. */
const FOR_LONG_MS = 3_600_000;

async function complete(prompt: string): Promise<void> {
  const [job] = await creates(prompt);
  await server.sandbox.setJob({ id: job!.id, status: 'completed' });
}

test('a repeated ticket gets the first job’s result, while it runs and after it ended', async () => {
  const { workflowId, prompt, ...same } = await ticket(FOR_LONG_MS);
  const first = await startParent('handleTicket', same);
  await untilPhase(workflowId, 'watching');
  const second = await startParent('handleTicket', same);
  await untilJoining(second);
  await complete(prompt);
  const [result, joined] = await Promise.all([first.result(), second.result()]);
  expect(result).toMatchObject({ outcome: 'completed' });
  expect(joined).toEqual(result);
  const later = await startParent('handleTicket', same);
  expect(await later.result()).toEqual(result);
  expect(await creates(prompt)).toHaveLength(1);
  // The child says what it is, as any other job.
  const run = await server.client.workflow.getHandle(workflowId).describe();
  expect(run.memo).toMatchObject({ inputHash: inputHash({ projectId: server.projectId, prompt }) });
  expect(await run.staticSummary()).toBe(`${server.projectId}: ${prompt}`);
  expect(run.priority).toMatchObject({ priorityKey: 3, fairnessKey: server.projectId });
});

test('another prompt under the key fails as a typed conflict, and makes no job', async () => {
  const { prompt, job, place } = await ticket();
  const first = await startParent('handleTicket', { job, place });
  await first.result();
  const other = { ...job, prompt: `Another than ${prompt}` } as AgentJobInput;
  const second = await startParent('handleTicket', { job: other, place });
  expect(await second.result()).toMatchObject({ type: 'KeyConflict', message: expect.stringContaining('another key') });
  expect(await creates(prompt)).toHaveLength(1);
});

test('a wrong input ends the parent instead of failing its task again and again', async () => {
  const { job, place } = await ticket();
  const parent = await startParent('runOnly', { job: { ...job, prompt: '' } as AgentJobInput, place });
  const failure = await failureOf(parent);
  expect(failure).toBeInstanceOf(ApplicationFailure);
  expect(failure).toMatchObject({ type: 'InvalidInput', details: [{ field: 'prompt' }], nonRetryable: true });
});

test('a rejected create fails all parents that wait, and the key may be tried again', async () => {
  const { prompt, workflowId, ...same } = await ticket();
  await server.sandbox.addFault({ kind: 'status', status: 429, promptIncludes: prompt, retryAfter: 10 });
  await server.sandbox.addFault({ kind: 'status', status: 422, promptIncludes: prompt });
  const first = await startParent('handleTicket', same);
  await untilPhase(workflowId, 'creating');
  const second = await startParent('handleTicket', same);
  await untilJoining(second);
  const rejected = { type: 'CreateRejected', details: [{ status: 422 }] };
  expect(await first.result()).toMatchObject(rejected);
  expect(await second.result()).toMatchObject(rejected);
  const again = await startParent('handleTicket', same);
  expect(await again.result()).toMatchObject({ outcome: 'completed' });
  expect(await creates(prompt)).toHaveLength(1);
});

test('a parent that joined a rejected job does not get another job that took its key meanwhile', async () => {
  const { prompt, workflowId, job, place } = await ticket();
  await server.sandbox.addFault({ kind: 'status', status: 422, promptIncludes: prompt });
  await (await startParent('handleTicket', { job, place })).result();
  const { runId } = await server.client.workflow.getHandle(workflowId).describe();
  const other = { ...job, prompt: `Other ${prompt}` } as AgentJobInput;
  await server.jobs.start({ ...other, key: place.key! } as never);
  const attempt = new MockActivityEnvironment({ heartbeatDetails: { runId } }, { client: server.client });
  await expect(attempt.run(joinAgentJob, { workflowId, job })).rejects.toMatchObject({ type: 'CreateRejected' });
});

test.each(['child', 'joined'])(
  'a job that is cancelled or terminated fails a parent that has it as %s',
  async (how) => {
    for (const [end, type] of [
      ['cancel', 'Canceled'],
      ['terminate', 'Terminated'],
    ] as const) {
      const { workflowId, ...same } = await ticket(3_600_000);
      if (how === 'joined') await server.jobs.start({ ...same.job, key: same.place.key! } as never);
      const parent = await startParent('handleTicket', same);
      await untilPhase(workflowId, 'watching');
      if (how === 'joined') await untilJoining(parent);
      await server.client.workflow.getHandle(workflowId)[end]();
      expect(await parent.result()).toMatchObject({ type });
    }
  },
);

test.each(['child', 'joined'])('a parent that is cancelled stops waiting, and its %s goes on', async (how) => {
  const { workflowId, ...same } = await ticket(3_600_000);
  if (how === 'joined') await server.jobs.start({ ...same.job, key: same.place.key! } as never);
  const parent = await startParent('handleTicket', same);
  await untilPhase(workflowId, 'watching');
  if (how === 'joined') await untilJoining(parent);
  await parent.cancel();
  await expect(parent.result()).rejects.toThrow('cancelled');
  const { status } = await server.client.workflow.getHandle(workflowId).describe();
  expect(status.name).toBe('RUNNING');
  await server.client.workflow.getHandle(workflowId).terminate();
});

test('a job that continues as new answers the parent that has it as a child, and the one that joined', async () => {
  const { workflowId, prompt, ...same } = await ticket(FOR_LONG_MS);
  const first = await startParent('handleTicket', same);
  await untilPhase(workflowId, 'watching');
  const handle = server.client.workflow.getHandle(workflowId);
  const { runId } = await handle.describe();
  const second = await startParent('handleTicket', same);
  const isNext = async () => {
    await handle.signal(pollNowSignal);
    return (await handle.describe()).runId !== runId;
  };
  await expect.poll(isNext).toBe(true);
  await complete(prompt);
  const result = (await first.result()) as AgentJobResult;
  expect(result.outcome).toBe('completed');
  expect(await second.result()).toEqual(result);
  expect(await creates(prompt)).toHaveLength(1);
});

test('a parent sends a follow-up after the end by a new child, which has a result of its own', async () => {
  const projectId = `reviews-${randomUUID()}`;
  const [A, B] = ['https://github.example/a/b/pull/1', 'https://github.example/a/b/pull/2'];
  const script = {
    steps: [{ status: 'completed', prLink: A }],
    messageLagMs: 0,
    followUp: [{ status: 'active' }, { afterReads: 1, status: 'completed', prLink: B }],
  };
  await server.sandbox.addScript({ projectId, script });
  // The new run's first poll would end it if it were answered before the follow-up is there.
  await server.sandbox.addFault({ kind: 'delay', delayMs: 10_000, operation: 'get', projectId, nth: 2 });
  const ticket = { job: { projectId, prompt: 'Fix it', ...QUICK }, place: { key: 't', taskQueue: server.taskQueue } };
  const parent = await startParent('reviewTicket', ticket);
  expect(await parent.result()).toMatchObject([
    { outcome: 'completed', prLink: A, followUps: [], sawWork: null },
    { outcome: 'completed', prLink: B, followUps: [{ id: 'test', state: 'sent' }], sawWork: true },
  ]);
  const [job] = await server.sandbox.creates({ projectId });
  expect(await server.sandbox.messages({ jobId: job!.id })).toHaveLength(1);
});

test('a parent replays, whichever way it got the result', async () => {
  const same = await ticket();
  for (const way of ['child', 'joined']) {
    const parent = await startParent('handleTicket', same);
    await parent.result();
    const replay = Worker.runReplayHistory(
      { workflowBundle: await bundleOf(workflowsPath) },
      await parent.fetchHistory(),
      parent.workflowId,
    );
    await expect(replay, way).resolves.toBeUndefined();
  }
});

/** Goes back to the beginning of the newest run: what it did since is done anew by another run. */
async function reset(workflowId: string): Promise<void> {
  const { runId } = await server.client.workflow.getHandle(workflowId).describe();
  await server.client.workflowService.resetWorkflowExecution({
    namespace: server.namespace,
    workflowExecution: { workflowId, runId },
    reason: 'an operator tries again',
    workflowTaskFinishEventId: 4 as never,
    requestId: randomUUID(),
  });
}

test('a parent that joined a job follows it over an operator’s resets', async () => {
  // Attached to a job: nothing is written anew after a reset.
  const { job: create, place, prompt } = await ticket(FOR_LONG_MS);
  const first = await server.jobs.start({ ...create, key: randomUUID() } as never);
  await untilPhase(first.workflowId, 'watching');
  const { jobId } = await first.state();
  await first.cancel();
  const job = { projectId: server.projectId, jobId: jobId!, ...QUICK };
  const { workflowId, runId } = await server.jobs.attach({ ...job, key: place.key! });
  await untilPhase(workflowId, 'watching');
  for (let i = 0; i < 2; i++) await reset(workflowId);
  const attempt = new MockActivityEnvironment({ heartbeatDetails: { runId } }, { client: server.client });
  await complete(prompt);
  expect(await attempt.run(joinAgentJob, { workflowId, job })).toMatchObject({ outcome: 'completed' });
});

test('a joined job that Temporal no longer keeps is sought for a while, and then reported as not found', async () => {
  const { workflowId, job, place } = await ticket();
  const handle = await server.jobs.start({ ...job, key: place.key! } as never);
  await handle.result();
  const { runId } = await server.client.workflow.getHandle(workflowId).describe();
  const workflowExecution = { workflowId, runId };
  await server.client.workflowService.deleteWorkflowExecution({ namespace: server.namespace, workflowExecution });
  const isThere = () => server.client.workflow.getHandle(workflowId, runId).describe();
  await expect.poll(() => isThere().catch((error: Error) => error.name)).toBe('WorkflowNotFoundError');
  const attempt = (missingSince?: number) => {
    const heartbeatDetails = { runId, ...(missingSince !== undefined && { missingSince }) };
    return new MockActivityEnvironment({ heartbeatDetails }, { client: server.client });
  };
  const first = attempt();
  const left: unknown[] = [];
  first.on('heartbeat', (details) => left.push(details));
  await expect(first.run(joinAgentJob, { workflowId, job })).rejects.toMatchObject({ type: 'JobMissing' });
  expect(left.at(-1)).toMatchObject({ runId, missingSince: expect.any(Number) });
  await expect(attempt(-300_001).run(joinAgentJob, { workflowId, job })).rejects.toMatchObject({
    type: 'NotFound',
    nonRetryable: true,
    message: expect.stringMatching(/no longer keeps .*check upstream .*another key/),
  });
});

test.each([
  ['nothing', undefined, 'input'],
  ['no job', { workflowId: 'w' }, 'input'],
  ['no workflow id', { job: { projectId: 'p', prompt: 'x' } }, 'workflowId'],
  ['a wrong job', { workflowId: 'w', job: { projectId: 'p', prompt: 'x', tags: 'night' } }, 'tags'],
])('an activity that another language asks with %s fails at once, and names the field', async (_, input, field) => {
  const attempt = new MockActivityEnvironment({}, { client: server.client });
  await expect(attempt.run(joinAgentJob, input as never)).rejects.toMatchObject({
    type: 'InvalidInput',
    nonRetryable: true,
    details: [{ field }],
  });
});
