import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { queuePlaceQuery } from '../../src/contract.js';
import { startTimeSkipping } from '../support/time-skipping.js';
import { startQueueBench, type QueueBench } from './queue-bench.js';

const HOUR = 3_600_000;
let environment: TestWorkflowEnvironment;
let bench: QueueBench;

beforeAll(async () => {
  environment = await startTimeSkipping();
});
afterAll(async () => environment.teardown());
afterEach(async () => bench.stop());

test('a set budget lets so many go at once, and the others when the hour frees their turns', async () => {
  bench = await startQueueBench(environment, { limits: { create: 10 } });
  const ids = await bench.wait(20, { perHour: 10 });
  expect(await bench.state()).toMatchObject({ perHour: 10, isLearned: false, throttledLastHour: 0, waitingCount: 10 });
  const place = await bench.handle.query(queuePlaceQuery, ids[15]!);
  expect(place).toMatchObject({ for: 'turn', position: 6 });
  await environment.sleep('61 minutes');
  expect(bench.sent.filter(({ isAccepted }) => isAccepted)).toHaveLength(20);
  expect(
    bench.sent
      .slice(0, 10)
      .map(({ workflowId }) => workflowId)
      .toSorted(),
  ).toEqual(ids.slice(0, 10).toSorted());
  const late = bench.sent.slice(10).map(({ at }) => at);
  expect(Math.min(...late) - bench.sent[0]!.at).toBeGreaterThanOrEqual(HOUR);
  // When nothing need be remembered, the queue ends.
  await environment.sleep('61 minutes');
  expect((await bench.handle.describe()).status.name).toBe('COMPLETED');
});
