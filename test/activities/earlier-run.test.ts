/** Whether a Schedule may have started a job before, while Temporal's list of runs lags behind the runs. */
import { randomUUID } from 'node:crypto';
import { type Client, WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { afterEach, expect, test, vi } from 'vitest';
import { surelyDoubted } from '../../src/activities/agent-job/earlier-run.js';
import type { Life } from '../../src/contract/write-outcome.js';
import { connectDevServer } from '../support/dev-server.js';
import { useForFile } from '../support/use.js';

// temporal.api.enums.v1.WorkflowExecutionStatus
const [RUNNING, COMPLETED, FAILED, CONTINUED_AS_NEW] = [1, 2, 3, 6];

const server = useForFile(connectDevServer);
afterEach(() => {
  vi.restoreAllMocks();
});

type Service = Client['workflowService'];
type Runs = NonNullable<Awaited<ReturnType<Service['listWorkflowExecutions']>>['executions']>;

interface Started {
  workflowId: string;
  runIds: string[];
}

/** An id whose first run ran when the list was last brought up to date, and whose second run is about to create. */
async function startedTwice(): Promise<Started> {
  const { client, taskQueue } = server;
  const workflowId = `agent-job/p/${randomUUID()}`;
  const runIds: string[] = [];
  for (let count = 0; count < 2; count++) {
    const options = { workflowId, taskQueue, args: [], workflowIdReusePolicy: 'ALLOW_DUPLICATE' as const };
    runIds.push((await client.workflow.start('agentJob', options)).firstExecutionRunId);
    if (count === 0) await client.workflow.getHandle(workflowId).terminate();
  }
  listAs([await asItRan(workflowId, runIds[0]!)]);
  return { workflowId, runIds };
}

async function asItRan(workflowId: string, runId: string): Promise<Runs[number]> {
  const { raw } = await server.client.workflow.getHandle(workflowId, runId).describe();
  return { ...raw.workflowExecutionInfo!, status: RUNNING, closeTime: null };
}

/** Describes the first run with this status. */
async function describeAs({ workflowId, runIds }: Started, status: number): Promise<void> {
  const { raw } = await server.client.workflow.getHandle(workflowId, runIds[0]).describe();
  const described = { ...raw, workflowExecutionInfo: { ...raw.workflowExecutionInfo, status } };
  vi.spyOn(server.client.workflowService, 'describeWorkflowExecution').mockResolvedValue(described as never);
}

function listAs(runs: Runs): void {
  vi.spyOn(server.client.workflowService, 'listWorkflowExecutions').mockImplementation((({
    query,
  }: {
    query: string;
  }) =>
    Promise.resolve({
      executions: query.includes('CloseTime IS NOT NULL') ? [] : runs,
      nextPageToken: new Uint8Array(),
    })) as never);
}

async function doubtOf({ workflowId, runIds }: Started): Promise<Life['doubt']> {
  const runId = runIds.at(-1)!;
  const info = { workflowExecution: { workflowId, runId } };
  const environment = new MockActivityEnvironment(info, { client: server.client });
  const life: Life = { runId, doubt: 'scheduled' };
  return environment.run(async (given: Life) => (await surelyDoubted(given)).doubt, life) as Promise<Life['doubt']>;
}

test('a run that has ended a moment ago, and is still listed as running, makes the next one ask', async () => {
  expect(await doubtOf(await startedTwice())).toBe('scheduled');
});

test('a run that this one continues, and that is still listed as running, does not', async () => {
  const started = await startedTwice();
  await describeAs(started, CONTINUED_AS_NEW);
  expect(await doubtOf(started)).toBeNull();
});

test('the run itself, and runs that Temporal has deleted since they were listed, do not', async () => {
  const { workflowId, runIds } = await startedTwice();
  const itself = await asItRan(workflowId, runIds[1]!);
  const deleted = { ...itself, execution: { workflowId, runId: randomUUID() } };
  listAs([itself, deleted, { ...deleted, status: COMPLETED }]);
  expect(await doubtOf({ workflowId, runIds })).toBeNull();
});

test.each([
  [7, 'scheduled'],
  [14, 'is tried again'],
])('where Temporal refuses the list it asks, and in an outage it is tried again: %i', async (code, outcome) => {
  const started = await startedTwice();
  const refusal = Object.assign(new Error('no'), { code, details: 'no', metadata: { get: () => [] } });
  vi.spyOn(server.client.workflowService, 'listWorkflowExecutions').mockRejectedValue(refusal as never);
  expect(await doubtOf(started).catch(() => 'is tried again')).toBe(outcome);
});

test.each([
  ['CreateRejected', null],
  ['InvalidInput', null],
  ['UnknownOutcome', 'scheduled'],
  ['of another service', 'scheduled'],
])('what a closed run allows decides: after a failure %s', async (type, expected) => {
  const started = await startedTwice();
  const failure = new WorkflowFailedError('failed', ApplicationFailure.create({ type }), 'NON_RETRYABLE_FAILURE');
  await describeAs(started, FAILED);
  vi.spyOn(server.client.workflow, 'result').mockRejectedValue(failure);
  expect(await doubtOf(started)).toBe(expected);
});
