/** The feed of ends: none left out, whatever is listed late, out of order, or at the same moment. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { agentJobStartOptions } from '../../src/agent-job/start-options.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { AgentJobs } from '../../src/starter.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { type HttpBench, startHttp } from './http-server.js';

interface End {
  key: string;
  runId: string;
  outcome: string;
  endedAt: string;
}

let server: TestServer;
let jobs: AgentJobs;
beforeAll(async () => {
  server = await connectDevServer();
  await ensureSearchAttributes(server.client.connection, server.namespace);
  jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
});
afterAll(() => server.close());

/** Jobs that nobody begins, ended at once. */
async function endJobs(projectId: string, count: number): Promise<string[]> {
  const end = async () => {
    const options = agentJobStartOptions(
      { projectId, prompt: 'x' },
      { key: randomUUID(), taskQueue: server.taskQueue },
    );
    const handle = await server.client.workflow.start('agentJob', options);
    await handle.terminate();
    return handle.firstExecutionRunId;
  };
  const ended: string[] = [];
  for (let left = count; left > 0; left -= 20) {
    ended.push(...(await Promise.all(Array.from({ length: Math.min(20, left) }, end))));
  }
  return ended;
}

async function read(bench: HttpBench, projectId: string, cursor: string | null, limit: number) {
  const query = `limit=${limit}${cursor === null ? '' : `&cursor=${cursor}`}`;
  const ask = () => bench.send(`/v1/projects/${projectId}/ended?${query}`);
  let { status, body } = await ask();
  // So says a server whose Temporal is busy; whoever reads the feed asks again.
  while (status === 503) ({ status, body } = await ask());
  expect(status).toBe(200);
  return body as { jobs: End[]; nextCursor: string };
}

/** Reads until a page is empty. */
async function readAll(bench: HttpBench, projectId: string, from: string | null, limit = 7) {
  const ends: End[] = [];
  let cursor = from;
  for (;;) {
    const page = await read(bench, projectId, cursor, limit);
    cursor = page.nextCursor;
    if (page.jobs.length === 0) return { ends, cursor };
    ends.push(...page.jobs);
  }
}

const idsOf = (ends: readonly End[]) => ends.map(({ runId }) => runId).toSorted();

test('who was down gets each end since, oldest first, and then none again', async () => {
  const projectId = `project ${randomUUID()}'"`.replace(/["']/g, '');
  const path = encodeURIComponent(projectId);
  const bench = await startHttp(jobs, projectId);
  const nothing = await readAll(bench, path, null);
  expect(nothing.ends).toEqual([]);
  const first = await endJobs(projectId, 30);
  let seen: End[] = [];
  let { cursor } = nothing;
  await vi.waitFor(async () => {
    const more = await readAll(bench, path, cursor);
    cursor = more.cursor;
    seen = [...seen, ...more.ends];
    expect(idsOf(seen)).toEqual(first.toSorted());
  }, 120_000);
  expect(seen[0]).toMatchObject({ outcome: 'Terminated', jobId: null, prLink: null, key: expect.any(String) });
  const fromStart = await readAll(bench, path, null);
  expect(fromStart.ends.map(({ endedAt }) => endedAt)).toEqual(fromStart.ends.map(({ endedAt }) => endedAt).toSorted());
  const second = await endJobs(projectId, 5);
  await vi.waitFor(async () => {
    const more = await readAll(bench, path, cursor);
    cursor = more.cursor;
    seen = [...seen, ...more.ends];
    expect(idsOf(seen)).toEqual([...first, ...second].toSorted());
  }, 120_000);
  await bench.close();
});

test('while jobs end, readers of any pace get each end; more than a cursor remembers come again', async () => {
  const projectId = `project-${randomUUID()}`;
  const bench = await startHttp(jobs, projectId);
  const ending = endJobs(projectId, 260);
  const seen = new Map<string, number>();
  let cursor: string | null = null;
  let isOver = false;
  void ending.then(() => (isOver = true));
  let ids: string[] = [];
  for (let more = true; more;) {
    const page: { jobs: End[]; nextCursor: string } = await read(bench, projectId, cursor, 1 + (seen.size % 60));
    cursor = page.nextCursor;
    expect(cursor.length).toBeLessThan(4_000);
    for (const { runId } of page.jobs) seen.set(runId, (seen.get(runId) ?? 0) + 1);
    if (isOver) ids = await ending;
    more = !isOver || seen.size < ids.length;
  }
  expect([...seen.keys()].toSorted()).toEqual(ids.toSorted());
  const slow = await read(bench, projectId, null, 1_000);
  expect(idsOf(slow.jobs)).toEqual(ids.toSorted());
  await bench.close();
});

test('ends that are listed late, and out of order, are told all the same', async () => {
  const projectId = `project-${randomUUID()}`;
  const ids = await endJobs(projectId, 12);
  await vi.waitFor(async () => expect((await jobs.count({ projectId, isRunning: false })).total).toBe(12), 120_000);
  // As a server does whose visibility lags: what it lists leaves out some ends, others at each time.
  let hidden = new Set(ids.filter((_, i) => i % 3 === 0));
  const service = server.client.workflowService;
  const lagging = Object.create(server.client, {
    workflowService: {
      value: Object.create(service, {
        listWorkflowExecutions: {
          value: async (request: object) => {
            const page = await service.listWorkflowExecutions(request);
            page.executions = page.executions.filter(({ execution }) => !hidden.has(execution?.runId ?? ''));
            return page;
          },
        },
      }),
    },
    connection: { value: Object.create(server.client.connection) },
  }) as typeof server.client;
  Object.defineProperty(lagging.connection, 'workflowService', { value: lagging.workflowService });
  const bench = await startHttp(new AgentJobs({ client: lagging, taskQueue: server.taskQueue }), projectId);
  const early = await readAll(bench, projectId, null, 5);
  expect(idsOf(early.ends)).toEqual(ids.filter((id) => !hidden.has(id)).toSorted());
  hidden = new Set();
  const late = await readAll(bench, projectId, early.cursor, 5);
  expect(idsOf([...early.ends, ...late.ends])).toEqual(ids.toSorted());
  await bench.close();
});

test('a cursor is for the project whose ends it has told', async () => {
  const [one, other] = [`project-${randomUUID()}`, `project-${randomUUID()}`];
  const bench = await startHttp(jobs, one);
  const { nextCursor } = await read(bench, one, null, 5);
  const path = `/v1/projects/${other}/ended?cursor=${nextCursor}`;
  expect((await bench.send(path, { key: bench.operator })).status).toBe(422);
  await bench.close();
});

test('a cursor names the version of its form, and one of another version is refused', async () => {
  const projectId = `project-${randomUUID()}`;
  const bench = await startHttp(jobs, projectId);
  const { nextCursor } = await read(bench, projectId, null, 5);
  expect(nextCursor).toMatch(/^1\./);
  for (const other of [nextCursor.replace(/^1/, '2'), nextCursor.replace(/^1\./, '')]) {
    const { status, body } = await bench.send(`/v1/projects/${projectId}/ended?cursor=${other}`);
    expect([status, body.detail]).toEqual([422, expect.stringContaining('must be the nextCursor of a page')]);
  }
  await bench.close();
});
