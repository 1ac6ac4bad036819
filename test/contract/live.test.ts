/** The answers of a worker against the published schemas: no field is missing, and none is added. */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { WorkflowFailedError, WorkflowUpdateFailedError } from '@temporalio/client';
import type { ApplicationFailure } from '@temporalio/common';
import { expect, test } from 'vitest';
import {
  followUpSignal,
  jobStateQuery,
  resolveUnknownUpdate,
  sendFollowUpUpdate,
  visitorExportProgressQuery,
} from '../../src/contract.js';
import { publishedManifest, rangeOf, startExport, useExport, withWorkers } from '../export/export.js';
import { useDevServer } from '../support/job-tests.js';
import { inDoubt, rejected } from '../support/outcomes.js';
import { ProjectQueue } from '../support/project-queue.js';
import { closed } from './closed.js';
import { newValidator } from './validator.js';

const file = new URL('../../docs/contract/agent-jobs.schema.json', import.meta.url);
const { $defs } = closed(JSON.parse(readFileSync(file, 'utf8')) as { $defs: object });
const validator = newValidator({ isStandard: true });

/** Why a value does not have a shape; null if it has. */
function misfit(name: string, value: unknown): string | null {
  if (validator.validate({ $ref: `#/$defs/${name}`, $defs }, value)) return null;
  return `${validator.errorsText()}: ${JSON.stringify(value)}`;
}

const { upstream, bench } = useDevServer();
const setUp = useExport({ visitors: { rows: 600 } });
const prompt = 'Fix it';

async function untilPhase(handle: Awaited<ReturnType<typeof bench.start>>, phase: string): Promise<void> {
  await expect
    .poll(async () => {
      const state = await handle.query(jobStateQuery);
      expect(misfit('JobState', state)).toBeNull();
      return state.phase;
    })
    .toBe(phase);
}

test('a job in doubt, adopted, with follow-ups, until its end: states, answers, result, memo', async () => {
  upstream.show = () => ({ status: 'active', source: { repository: 'a/b', ref: null } });
  upstream.createFaults.push(inDoubt('upstream answered 500'));
  const handle = await bench.start({ projectId: `p ${randomUUID()}`, prompt, batch: 'b', settle: 0 });
  await untilPhase(handle, 'needsAttention');
  const refused: unknown = await handle
    .executeUpdate(resolveUnknownUpdate, { args: [{ action: 'delivered' }] })
    .catch((error: unknown) => error);
  expect(
    misfit('InvalidInputDetails', ((refused as WorkflowUpdateFailedError).cause as ApplicationFailure).details?.[0]),
  ).toBeNull();
  const decision = { action: 'adopt', jobId: 'job-1', by: 'ann', note: 'seen' } as const;
  expect(misfit('JobState', await handle.executeUpdate(resolveUnknownUpdate, { args: [decision] }))).toBeNull();
  upstream.messageFaults.push(rejected(400, 'no'));
  await handle.signal(followUpSignal, { prompt, id: 'a' });
  expect(
    misfit('FollowUpAnswer', await handle.executeUpdate(sendFollowUpUpdate, { args: [{ prompt, id: 'b' }] })),
  ).toBeNull();
  upstream.show = () => ({ status: 'completed', prLink: 'https://example.com/pull/1' });
  const result = await handle.result();
  expect(misfit('AgentJobResult', result)).toBeNull();
  expect(result.decisions).toHaveLength(1);
  await untilPhase(handle, 'done');
  const { memo, searchAttributes } = await handle.describe();
  expect(misfit('AgentJobMemo', memo)).toBeNull();
  const own = Object.entries(searchAttributes ?? {}).filter(([name]) => name.startsWith('AgentJob'));
  expect(
    misfit('AgentJobSearchAttributes', Object.fromEntries(own.map(([name, values]) => [name, values?.[0]]))),
  ).toBeNull();
});

test('a job that no end came to: its result', async () => {
  upstream.show = () => ({ status: 'active' });
  const handle = await bench.start({ projectId: 'p1', prompt, deadline: 0 });
  const result = await handle.result();
  expect(result).toMatchObject({ outcome: 'timedOut', reason: expect.any(String) });
  expect(misfit('AgentJobResult', result)).toBeNull();
});

test('jobs that fail: the details of each failure', async () => {
  const detailsOf = async (input: object): Promise<unknown> => {
    const handle = await bench.start(input);
    const error = (await handle.result().catch((e: unknown) => e)) as WorkflowFailedError;
    expect(misfit('JobState', await handle.query(jobStateQuery))).toBeNull();
    return (error.cause as ApplicationFailure).details?.[0];
  };
  expect(misfit('InvalidInputDetails', await detailsOf({ projectId: 'p1' }))).toBeNull();
  upstream.createFaults.push(inDoubt('upstream answered 500'));
  expect(
    misfit('UnknownOutcomeDetails', await detailsOf({ projectId: 'p1', prompt, onUnknownOutcome: 'fail' })),
  ).toBeNull();
  upstream.createFaults.push(rejected(400, 'no'));
  expect(misfit('CreateRejectedDetails', await detailsOf({ projectId: 'p1', prompt }))).toBeNull();
});

test('a job that waits for its turn: the state of the queue, and its place', async () => {
  const projectId = `p ${randomUUID()}`;
  const queue = new ProjectQueue(bench.client, bench.taskQueue, projectId);
  await queue.usedUp(1, 3_600_000);
  const { workflowId } = await bench.start({ projectId, prompt });
  await expect.poll(() => queue.placeOf(workflowId)).not.toBeNull();
  expect(misfit('QueuePlace', await queue.placeOf(workflowId))).toBeNull();
  const state = await queue.state();
  expect(misfit('RequestQueueState', state)).toBeNull();
  expect(state.waiting).toHaveLength(1);
});

test('an export that is refused names the field', async () => {
  const input = { projectId: setUp.projectId, dateFrom: '2026-01-01' } as never;
  const refusal = await withWorkers(setUp, async () => {
    const handle = await startExport(setUp, input, `wrong/${setUp.projectId}`);
    return (await handle.result().catch((error: unknown) => error)) as WorkflowFailedError;
  });
  const details = (refusal.cause as ApplicationFailure).details?.[0];
  expect(misfit('InvalidInputDetails', details)).toBeNull();
  expect(details).toEqual({ field: 'dateTo' });
});

test('an export: its progress, result and manifest', async () => {
  const range = rangeOf(setUp);
  await withWorkers(setUp, async () => {
    const handle = await startExport(setUp, range);
    expect(misfit('VisitorExportResult', await handle.result())).toBeNull();
    expect(misfit('VisitorExportProgress', await handle.query(visitorExportProgressQuery))).toBeNull();
  });
  expect(misfit('SnapshotManifest', await publishedManifest(setUp, range))).toBeNull();
});
