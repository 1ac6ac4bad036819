import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { concurrently } from '../../src/client/concurrently.js';
import { freePort } from '../../src/local/child-process.js';
import { AgentJobs, TemporalCallError, type StartFate } from '../../src/starter.js';
import { connectDevServer, connectTo, type TestServer } from '../support/dev-server.js';

const MOST_MS = 120_000;

let server: TestServer;
let jobs: AgentJobs;
beforeAll(async () => {
  server = await connectDevServer();
  jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
});
afterAll(() => server.close());

function requests(count: number, projectId = `project-${randomUUID()}`) {
  return Array.from({ length: count }, (_, i) => ({ projectId, key: `k${i}`, prompt: `do ${i}` }));
}

async function collect(fates: AsyncIterable<StartFate>): Promise<{ told: StartFate[]; error: unknown }> {
  const told: StartFate[] = [];
  try {
    for await (const fate of fates) told.push(fate);
    return { told, error: undefined };
  } catch (error) {
    return { told, error };
  }
}

const countOf = (fate: StartFate['fate'], told: StartFate[]) => told.filter((one) => one.fate === fate).length;

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

test('an abort lets what is under way have its fate, begins nothing more and is thrown', async () => {
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

test('where Temporal refuses the caller no request is called refused: the call throws', async () => {
  const { client, close } = await connectTo({ address: server.address, namespace: 'no-such-namespace' });
  const { told, error } = await collect(new AgentJobs({ client }).startMany(requests(3)));
  await close();
  expect(told).toEqual([]);
  expect(error).toBeInstanceOf(TemporalCallError);
  expect((error as Error).message).toContain('check TEMPORAL_NAMESPACE');
});

test('what is no request at all is refused, and wrong options are told before anything is read', async () => {
  const circular: Record<string, unknown> = { key: 'k', projectId: 'p', prompt: 'x' };
  circular['self'] = circular;
  const { told } = await collect(jobs.startMany([null, 'text', circular] as never));
  expect(told.map(({ fate, error }) => [fate, error instanceof Error])).toEqual(Array(3).fill(['refused', true]));
  expect(() => jobs.startMany([], { concurrency: 0 })).toThrow('concurrency must be a whole number from 1 to 200');
});

test('a request that Temporal itself refuses is told as refused', async () => {
  const others = new AgentJobs({ client: server.client, taskQueue: 'q'.repeat(1_100) });
  const { told, error } = await collect(others.startMany(requests(2)));
  expect(error).toBeUndefined();
  expect(told).toMatchObject([{ fate: 'refused' }, { fate: 'refused' }]);
  expect(told[0]?.error?.message).toMatch(/task ?queue/i);
});

describe('over an outage', { timeout: MOST_MS }, () => {
  interface Proxy {
    address: string;
    /** Cuts all connections, and lets none be made. */
    cut: () => Promise<void>;
    mend: () => Promise<void>;
    /** Cuts them right after the request that holds this text was handed on. */
    cutAfter: (text: string) => Promise<void>;
  }

  async function startProxy(): Promise<Proxy> {
    const [host = '', port = ''] = server.address.split(':');
    const sockets = new Set<Socket>();
    let cutAt: { text: string; isCut: () => void } | null = null;
    let proxy: Server;
    const listen = async (at: number) => {
      proxy = createServer((near) => {
        const far = connect(Number(port), host);
        for (const socket of [near, far]) {
          sockets.add(socket);
          socket.on('error', () => {}).on('close', () => sockets.delete(socket));
        }
        near.on('data', (bytes) => {
          far.write(bytes);
          if (cutAt !== null && bytes.includes(cutAt.text)) {
            // The server has the request, and its answer finds no caller.
            near.destroy();
            void cut();
            setTimeout(cutAt.isCut, 500);
            cutAt = null;
          }
        });
        far.on('data', (bytes) => void near.write(bytes)).on('close', () => near.destroy());
      });
      proxy.listen(at, '127.0.0.1');
      await once(proxy, 'listening');
      return (proxy.address() as AddressInfo).port;
    };
    const cut = async () => {
      proxy.close();
      await new Promise((resolve) => setTimeout(resolve, 300));
      for (const socket of sockets) socket.destroy();
    };
    // An outgoing connection may use a port of their range when it is mended.
    const own = await listen(await freePort());
    return {
      address: `127.0.0.1:${own}`,
      cut,
      mend: async () => void (await listen(own)),
      cutAfter: (text) => new Promise((isCut) => (cutAt = { text, isCut })),
    };
  }

  async function jobsThrough({ address }: Proxy): Promise<{ through: AgentJobs; close: () => Promise<void> }> {
    const through = await AgentJobs.connect({ address, namespace: server.namespace, taskQueue: server.taskQueue });
    return { through, close: () => through.close() };
  }

  test('a start whose answer was lost is told as started, and is one workflow', async () => {
    const proxy = await startProxy();
    const { through, close } = await jobsThrough(proxy);
    const [request] = requests(1);
    const isCut = proxy.cutAfter(request!.projectId);
    const started = collect(through.startMany([request!]));
    await isCut;
    const handle = server.client.workflow.getHandle(jobs.handle(request!).workflowId);
    const found = async () => (await handle.describe().catch(() => null))?.runId;
    await expect.poll(found).toBeDefined();
    const runId = await found();
    // It may even have ended meanwhile.
    await handle.terminate();
    // Longer than one try of the client's own.
    await new Promise((resolve) => setTimeout(resolve, 33_000));
    await proxy.mend();
    const { told, error } = await started;
    expect(error).toBeUndefined();
    expect(told).toMatchObject([{ index: 0, key: 'k0', fate: 'started' }]);
    expect((await handle.describe()).runId).toBe(runId);
    await close();
    await proxy.cut();
  });
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

  test('tells what is done while the source has nothing yet', async () => {
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

  test('closes the source of a caller that stops early', async () => {
    let isClosed = false;
    function* items() {
      try {
        for (let i = 0; ; i++) yield i;
      } finally {
        isClosed = true;
      }
    }
    for await (const result of concurrently(items(), { limit: 3 }, (item) => Promise.resolve(item))) {
      if (result === 10) break;
    }
    expect(isClosed).toBe(true);
  });
});
