import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { concurrently } from '../../src/client/concurrently.js';
import { AgentJobs, TemporalCallError, type StartOutcome } from '../../src/starter.js';
import { connectDevServer, connectTo } from '../support/dev-server.js';
import { useForFile } from '../support/use.js';

const server = useForFile(connectDevServer);
let jobs: AgentJobs;
beforeAll(async () => {
  jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
});

function requests(count: number, projectId = `project-${randomUUID()}`) {
  return Array.from({ length: count }, (_, i) => ({ projectId, key: `k${i}`, prompt: `do ${i}` }));
}

async function collect(fates: AsyncIterable<StartOutcome>): Promise<{ told: StartOutcome[]; error: unknown }> {
  const told: StartOutcome[] = [];
  try {
    for await (const fate of fates) told.push(fate);
    return { told, error: undefined };
  } catch (error) {
    return { told, error };
  }
}

const countOf = (fate: StartOutcome['fate'], told: StartOutcome[]) => told.filter((one) => one.fate === fate).length;

test('two callers of the same requests at once start each job once between them', async () => {
  const wanted = requests(60);
  const both = await Promise.all([collect(jobs.startMany(wanted)), collect(jobs.startMany(wanted))]);
  for (const { told, error } of both) {
    expect(error).toBeUndefined();
    expect(told.map(({ index }) => index).toSorted((a, b) => a - b)).toEqual(wanted.map((_, index) => index));
  }
  const all = both.flatMap(({ told }) => told);
  expect([countOf('started', all), countOf('joined', all)]).toEqual([60, 60]);
});

test('of requests with one key the first in order is the one that starts, however many are under way', async () => {
  const [wanted] = requests(1);
  const others = Array.from({ length: 30 }, (_, i) => ({ ...wanted!, prompt: `other ${i}` }));
  const { told } = await collect(jobs.startMany([wanted!, ...others, wanted!], { concurrency: 32 }));
  expect(told.map(({ fate }) => fate)).toEqual(['started', ...others.map(() => 'conflict'), 'joined']);
});

test('an abort finishes what is under way, begins nothing more and is thrown', async () => {
  const stop = new AbortController();
  const reason = new Error('enough');
  let asked = 0;
  function* endless() {
    for (const request of requests(1_000)) {
      asked += 1;
      if (asked === 40) stop.abort(reason);
      yield request;
    }
  }
  const { told, error } = await collect(jobs.startMany(endless(), { concurrency: 10, signal: stop.signal }));
  expect(error).toBe(reason);
  expect(told.length).toBe(39);
  expect(countOf('started', told)).toBe(39);
});

test('where Temporal refuses the caller no request is called invalid: the call throws', async () => {
  const { client, close } = await connectTo({ address: server.address, namespace: 'no-such-namespace' });
  const { told, error } = await collect(new AgentJobs({ client }).startMany(requests(3)));
  await close();
  expect(told).toEqual([]);
  expect(error).toBeInstanceOf(TemporalCallError);
  expect((error as Error).message).toContain('check TEMPORAL_NAMESPACE');
});

test('what is no request at all is invalid, and wrong options throw before anything is read', async () => {
  const circular: Record<string, unknown> = { key: 'k', projectId: 'p', prompt: 'x' };
  circular['self'] = circular;
  const { told } = await collect(jobs.startMany([null, 'text', circular] as never));
  expect(told.map(({ fate, error }) => [fate, error instanceof Error])).toEqual(Array(3).fill(['refused', true]));
  expect(() => jobs.startMany([], { concurrency: 0 })).toThrow('concurrency must be a whole number from 1 to 200');
});

test('a request that Temporal itself finds invalid is invalid', async () => {
  const others = new AgentJobs({ client: server.client, taskQueue: 'q'.repeat(1_100) });
  const { told, error } = await collect(others.startMany(requests(2)));
  expect(error).toBeUndefined();
  expect(told).toMatchObject([{ fate: 'refused' }, { fate: 'refused' }]);
  expect(told[0]?.error?.message).toMatch(/task ?queue/i);
});

test('a start whose answer was lost is one workflow, and counts as started', async () => {
  const [request] = requests(1);
  const { workflowService } = server.client;
  const handle = server.client.workflow.getHandle(jobs.handle(request!).workflowId);
  const start = workflowService.startWorkflowExecution.bind(workflowService);
  const starts = vi.spyOn(workflowService, 'startWorkflowExecution');
  let runId: string | undefined;
  starts.mockImplementationOnce((async (given: object) => {
    ({ runId } = await start(given));
    // It may even end meanwhile.
    await handle.terminate();
    throw Object.assign(new Error('lost'), { code: 14, details: 'lost', metadata: { get: () => [] } });
  }) as never);
  const { told, error } = await collect(jobs.startMany([request!]));
  expect({ told, error }).toMatchObject({ told: [{ index: 0, key: 'k0', fate: 'started' }], error: undefined });
  expect(starts).toHaveBeenCalledTimes(2);
  starts.mockRestore();
  expect((await handle.describe()).runId).toBe(runId);
});

describe('work on many items', () => {
  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

  test('holds no more than the limit, and reads no item that it can not begin', async () => {
    let [reads, inWork, most] = [0, 0, 0];
    function* items() {
      for (; reads < 100;) yield ++reads;
    }
    const results: number[] = [];
    const work = async (item: number) => {
      most = Math.max(most, ++inWork);
      await pause(item % 3);
      inWork -= 1;
      return item;
    };
    for await (const result of concurrently(items(), { limit: 7 }, work)) {
      results.push(result);
      expect(reads - results.length).toBeLessThanOrEqual(2 * 7);
    }
    expect(most).toBe(7);
    expect(results.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, i) => i + 1));
  });

  test('yields what is done while the source has nothing yet', async () => {
    let give = (_: number): void => {};
    async function* items() {
      yield 1;
      yield await new Promise<number>((resolve) => (give = resolve));
    }
    const results = concurrently(items(), { limit: 5 }, (item) => Promise.resolve(item));
    expect(await results.next()).toMatchObject({ value: 1 });
    const next = results.next();
    await pause(5);
    give(2);
    expect(await next).toMatchObject({ value: 2 });
    expect(await results.next()).toMatchObject({ done: true });
  });

  test.each(['source', 'work'])('after an error of the %s finishes what is in work, then throws it', async (where) => {
    const finished: number[] = [];
    function* items() {
      yield* [1, 2, 3];
      if (where === 'source') throw new Error('broken');
      yield 4;
      yield 5;
    }
    const work = async (item: number) => {
      if (item === 4) throw new Error('broken');
      await pause(20);
      finished.push(item);
      return item;
    };
    const told: number[] = [];
    const run = async () => {
      for await (const result of concurrently(items(), { limit: 4 }, work)) told.push(result);
    };
    await expect(run()).rejects.toThrow('broken');
    expect(told).toEqual([1, 2, 3]);
    expect(finished).toEqual([1, 2, 3]);
  });
});
