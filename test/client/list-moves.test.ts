/** Lists that are read while what they list moves: runs close, continue as new, and are followed by others. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { listJobs } from '../../src/client/agent-job/list.js';
import { readCursor, toCursor } from '../../src/client/agent-job/list-cursor.js';
import { agentJobStartOptions, agentJobWorkflowId, type JobFilter, type JobSummary } from '../../src/starter.js';
import { until } from '../support/worker-process.js';
import { gathered } from './job-server.js';
import { startScriptedServer, type ScriptedServer } from './scripted-server.js';

let server: ScriptedServer;
beforeAll(async () => {
  server = await startScriptedServer();
});
afterAll(() => server.close());

const KEYS = ['k5', 'k4', 'k3', 'k2', 'k1', 'k0'];

async function start(
  projectId: string,
  key: string,
  { taskQueue = server.taskQueue, batch = projectId } = {},
): Promise<void> {
  const job = { projectId, prompt: 'continue', batch };
  const { workflowIdReusePolicy: _, ...options } = agentJobStartOptions(job, { key, taskQueue });
  await server.client.workflow.start('agentJob', options);
}

/** Six jobs that continue as new with their first follow-up; the server lists `k5` first, `k0` last. */
async function startSix(name: string): Promise<string> {
  const projectId = `${name}-${randomUUID()}`;
  for (const key of KEYS.toReversed()) await start(projectId, key);
  await listedAs(projectId, KEYS);
  return projectId;
}

/** What one page of all runs shows that did not continue, so that a change is in the list before the next page. */
async function listedAs(projectId: string, keys: string[]): Promise<void> {
  const query = `AgentJobProject = '${projectId}' AND ExecutionStatus != 'ContinuedAsNew'`;
  const keysNow = async () => (await gathered(server.client.workflow.list({ query }))).map(keyOf);
  await until(async () => String(await keysNow()) === String(keys), `the server to list ${keys.join(', ')}`);
}

function keyOf({ workflowId }: { workflowId: string }): string {
  return workflowId.split('/').at(-1) ?? '';
}

interface Reading {
  filter?: JobFilter;
  /** After the first page of two jobs. */
  meanwhile: () => Promise<void>;
}

/** The keys of a list that is read two jobs at a time. */
async function listWhile(projectId: string, { filter, meanwhile }: Reading): Promise<string[]> {
  const jobs: JobSummary[] = [];
  for await (const job of listJobs(server.client, { projectId, ...filter }, { pageSize: 2 })) {
    if (jobs.push(job) === 2) await meanwhile();
  }
  return jobs.map(keyOf);
}

async function pagesWhile(projectId: string, { filter, meanwhile }: Reading): Promise<string[]> {
  const jobs: JobSummary[] = [];
  for (let cursor: string | null | undefined; cursor !== null;) {
    const page = await server.jobs.listPage({ projectId, ...filter }, { pageSize: 2, cursor });
    if (cursor === undefined) await meanwhile();
    jobs.push(...page.jobs);
    cursor = page.nextCursor;
  }
  return jobs.map(keyOf);
}

/** Until it is listed as over: in the list of all it may stand in the same place as before. */
async function end(projectId: string, key: string): Promise<void> {
  const workflowId = agentJobWorkflowId(projectId, key);
  await server.client.workflow.getHandle(workflowId).terminate();
  const query = `WorkflowId = '${workflowId}' AND ExecutionStatus = 'Running'`;
  await until(async () => (await server.client.workflow.count(query)).count === 0, `${key} to be listed as over`);
}

/** Its new run is the newest of all. */
async function continueAsNew(projectId: string, key: string): Promise<void> {
  await server.jobs.handle({ projectId, key }).followUp('go on', { id: 'one' });
  await listedAs(projectId, [key, ...KEYS.filter((one) => one !== key)]);
}

describe.concurrent('a job that is there while a list is read', () => {
  test('comes once where it ends after it was told', async () => {
    const projectId = await startSix('told');
    const meanwhile = async () => {
      await end(projectId, 'k5');
      await listedAs(projectId, ['k4', 'k3', 'k2', 'k1', 'k0', 'k5']);
    };
    expect(await listWhile(projectId, { meanwhile })).toEqual(KEYS);
  });

  test('comes once where it ends before it is told', async () => {
    const projectId = await startSix('ends');
    const meanwhile = async () => {
      await end(projectId, 'k1');
      await listedAs(projectId, ['k5', 'k4', 'k3', 'k2', 'k0', 'k1']);
    };
    const ended = ['k5', 'k4', 'k3', 'k2', 'k0', 'k1'];
    expect(await listWhile(projectId, { meanwhile })).toEqual(ended);
    expect(await pagesWhile(projectId, { meanwhile: async () => {} })).toEqual(ended);
  });

  const FILTERS: JobFilter[] = [{}, { isRunning: true }, { startedAfter: new Date(0) }];
  test.each(FILTERS)('comes once where it continues as new before it is told, %j', async (filter) => {
    for (const read of [listWhile, pagesWhile]) {
      const projectId = await startSix('continues');
      const meanwhile = () => continueAsNew(projectId, 'k1');
      const keys = await read(projectId, { filter, meanwhile });
      expect(keys.toSorted(), read.name).toEqual(KEYS.toSorted());
    }
  });

  test('comes once where it continues as new after it was told; a page may name it again', async () => {
    const projectId = await startSix('again');
    const meanwhile = () => continueAsNew(projectId, 'k4');
    expect(await listWhile(projectId, { meanwhile })).toEqual(KEYS);
    const paged = await startSix('named-again');
    const keys = await pagesWhile(paged, { meanwhile: () => continueAsNew(paged, 'k4') });
    expect(keys.toSorted()).toEqual([...KEYS, 'k4'].toSorted());
  });

  test('comes once where it had ended and goes on', async () => {
    for (const read of [listWhile, pagesWhile]) {
      const projectId = await startSix('goes-on');
      await end(projectId, 'k0');
      const meanwhile = async () => {
        await start(projectId, 'k0', { taskQueue: 'nobody' });
        await listedAs(projectId, ['k0', 'k5', 'k4', 'k3', 'k2', 'k1', 'k0']);
      };
      const keys = await read(projectId, { meanwhile });
      expect(keys.toSorted(), read.name).toEqual(KEYS.toSorted());
    }
  });

  test('is not told where what it became does not fit', async () => {
    const projectId = await startSix('unfit');
    await end(projectId, 'k0');
    const meanwhile = async () => {
      await start(projectId, 'k0', { batch: 'another' });
      await listedAs(projectId, ['k0', 'k5', 'k4', 'k3', 'k2', 'k1', 'k0']);
    };
    expect(await listWhile(projectId, { filter: { batch: projectId }, meanwhile })).toEqual(KEYS.slice(0, 5));
  });

  test('comes once in pages of what stands still, whatever happened just before', async () => {
    const projectId = await startSix('still');
    await end(projectId, 'k0');
    await start(projectId, 'k0');
    const six = ['k0', 'k5', 'k4', 'k3', 'k2', 'k1'];
    await listedAs(projectId, [...six, 'k0']);
    await server.jobs.handle({ projectId, key: 'k2' }).followUp('go on', { id: 'one' });
    await listedAs(projectId, ['k2', 'k0', 'k5', 'k4', 'k3', 'k1', 'k0']);
    const meanwhile = async () => {};
    const keys = ['k2', 'k0', 'k5', 'k4', 'k3', 'k1'];
    expect(await listWhile(projectId, { meanwhile })).toEqual(keys);
    expect(await pagesWhile(projectId, { meanwhile })).toEqual(keys);
    for (const key of keys) await end(projectId, key);
    await listedAs(projectId, ['k1', 'k3', 'k4', 'k5', 'k0', 'k2', 'k0']);
    expect(await pagesWhile(projectId, { meanwhile })).toEqual(['k1', 'k3', 'k4', 'k5', 'k0', 'k2']);
  });

  test('comes once in pages where it had gone on and ended, and an older job stands first', async () => {
    const projectId = await startSix('ended-long-ago');
    await end(projectId, 'k0');
    await start(projectId, 'k0');
    await listedAs(projectId, ['k0', 'k5', 'k4', 'k3', 'k2', 'k1', 'k0']);
    await end(projectId, 'k0');
    const first = await server.jobs.listPage({ projectId }, { pageSize: 5 });
    // As of a list that began in an hour: no clock of the server makes what ended before it new.
    const place = readCursor({ projectId }, first.nextCursor);
    const cursor = toCursor({ projectId }, { ...place, beganAt: place.beganAt + 3_600_000 });
    const second = await server.jobs.listPage({ projectId }, { pageSize: 1, cursor });
    const third = await server.jobs.listPage({ projectId }, { pageSize: 1, cursor: second.nextCursor });
    expect([first, second, third].map(({ jobs }) => jobs.map(keyOf))).toEqual([KEYS.slice(0, 5), ['k0'], []]);
  });
});

test('a made-up cursor of a time that is none is refused', async () => {
  const filter = { projectId: 'p' };
  const head = { isOpen: true, at: 0 };
  const cursor = toCursor(filter, { token: new Uint8Array([1]), beganAt: 9e15, head });
  await expect(server.jobs.listPage(filter, { cursor })).rejects.toThrow(/^cursor must be the nextCursor/);
});
