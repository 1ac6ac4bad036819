/** Changes of a Schedule that others change too, or whose server shows them late: on a real server. */
import { randomUUID } from 'node:crypto';
import { Client } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AgentJobs, ScheduleMissingError, type JobScheduleHandle } from '../../src/starter.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';

type Service = Client['workflowService'];

let server: TestServer;
let jobs: AgentJobs;
beforeAll(async () => {
  server = await connectDevServer();
  await ensureSearchAttributes(server.client.connection, server.namespace);
  jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue });
});
afterAll(async () => server.close());

/** A recurring job, and a way to change it over requests of which some are replaced. */
async function recurring(over: (service: Service, handle: JobScheduleHandle) => object = () => ({})) {
  const job = { projectId: `p/${randomUUID()}`, name: 'nightly' };
  const handle = await jobs.schedule({ ...job, prompt: 'Review {date}', cron: '30 4 * * *' });
  const { connection, workflowService } = server.client;
  const service = Object.assign(Object.create(workflowService) as Service, over(workflowService, handle));
  const replaced = Object.create(connection, { workflowService: { value: service } }) as typeof connection;
  const client = new Client({ connection: replaced, namespace: server.namespace });
  const others = new AgentJobs({ client, taskQueue: server.taskQueue });
  return {
    handle,
    raw: server.client.schedule.getHandle(handle.scheduleId),
    set: (settings: object) => jobs.schedule({ ...job, ...settings }),
    setOver: (settings: object) => others.schedule({ ...job, ...settings }),
  };
}

/** Does something before the first updates, which is between read and write. */
function before(work: (() => Promise<unknown>)[]) {
  return (service: Service) => ({
    async updateSchedule(request: Parameters<Service['updateSchedule']>[0]) {
      await work.shift()?.();
      return service.updateSchedule(request);
    },
  });
}

test('a change by another caller between read and write is kept, however often', async () => {
  const work = [() => set({ priority: 1 }), () => set({ deadline: '1 hour' })];
  const { handle, set, setOver } = await recurring(before(work));
  await setOver({ jitter: '1 minute' });
  expect(await handle.describe()).toMatchObject({ jitterMs: 60_000, options: { priority: 1, deadline: '1 hour' } });
  await handle.remove();
});

test('a pause between read and write is kept', async () => {
  const { handle, setOver } = await recurring(before([() => handle.pause('a freeze')]));
  await setOver({ jitter: '1 minute' });
  expect(await handle.describe()).toMatchObject({ jitterMs: 60_000, paused: true, note: 'a freeze' });
  await handle.remove();
});

test('the same change by another caller between read and write is no trouble', async () => {
  const { handle, set, setOver } = await recurring(before([() => set({ jitter: '1 minute' })]));
  await setOver({ jitter: '1 minute' });
  expect((await handle.describe()).jitterMs).toBe(60_000);
  await handle.remove();
});

test('of changes and a pause at once none is lost', async () => {
  const { handle, set } = await recurring();
  const changes = [{ jitter: '1 minute' }, { priority: 1 }, { deadline: '1 hour' }, { catchUp: '2 hours' }];
  await Promise.all([...changes.map(set), handle.pause('a freeze')]);
  const all = { jitterMs: 60_000, catchUpMs: 7_200_000, options: { priority: 1, deadline: '1 hour' } };
  expect(await handle.describe()).toMatchObject({ ...all, paused: true, note: 'a freeze' });
  await handle.remove();
});

test('a change that the server refuses, for it was of what has changed since, is made again', async () => {
  const details = 'mismatched conflict token';
  const refusal = Object.assign(new Error(`9 FAILED_PRECONDITION: ${details}`), {
    code: 9,
    details,
    metadata: new Map(),
  });
  const { handle, setOver } = await recurring(before([() => Promise.reject(refusal)]));
  await setOver({ jitter: '1 minute' });
  expect((await handle.describe()).jitterMs).toBe(60_000);
  await handle.remove();
});

test('a change that the server shows late is waited for, and made once', async () => {
  const calls: string[] = [];
  const { handle, setOver } = await recurring((service) => {
    const early: ReturnType<Service['describeSchedule']>[] = [];
    return {
      describeSchedule(request: Parameters<Service['describeSchedule']>[0]) {
        calls.push('describe');
        // As it was before the change, three times.
        if (calls.length > 4) return service.describeSchedule(request);
        return (early[0] ??= service.describeSchedule(request));
      },
      updateSchedule(request: Parameters<Service['updateSchedule']>[0]) {
        calls.push('update');
        return service.updateSchedule(request);
      },
    };
  });
  await setOver({ jitter: '1 minute' });
  expect(calls.slice(0, 5)).toEqual(['describe', 'update', 'describe', 'describe', 'describe']);
  expect(calls.filter((call) => call === 'update')).toHaveLength(1);
  expect((await handle.describe()).jitterMs).toBe(60_000);
  await handle.remove();
});

/** Does something after each update. */
function after(work: (handle: JobScheduleHandle) => Promise<unknown>) {
  return (service: Service, handle: JobScheduleHandle) => ({
    async updateSchedule(request: Parameters<Service['updateSchedule']>[0]) {
      const response = await service.updateSchedule(request);
      await work(handle);
      return response;
    },
  });
}

test('a change of a Schedule that another caller then removes returns', async () => {
  const { handle, setOver } = await recurring(after((made) => made.remove()));
  await setOver({ jitter: '1 minute' });
  await expect(handle.describe()).rejects.toThrow(ScheduleMissingError);
});

test('a change of which nobody can tell whether it was made does not pass for made', async () => {
  const { handle, setOver } = await recurring((service) => {
    let isSent = false;
    return {
      describeSchedule: (request: Parameters<Service['describeSchedule']>[0]) =>
        isSent ? Promise.reject(new Error('no answer')) : service.describeSchedule(request),
      updateSchedule(request: Parameters<Service['updateSchedule']>[0]) {
        isSent = true;
        return service.updateSchedule(request);
      },
    };
  });
  await expect(setOver({ jitter: '1 minute' })).rejects.toMatchObject({ code: 'TEMPORAL_CALL' });
  await handle.remove();
});

test('a change shows as no limit of actions, and leaves alone the one that another tool has set', async () => {
  const { handle, raw, set } = await recurring();
  await set({ jitter: '1 minute' });
  expect((await raw.describe()).raw.schedule?.state?.limitedActions).toBe(false);
  expect((await raw.describe()).state.remainingActions).toBeUndefined();
  await raw.update((current) => ({ ...current, state: { ...current.state, remainingActions: 5 } }));
  await expect.poll(async () => (await raw.describe()).state.remainingActions).toBe(5);
  await set({ jitter: '2 minutes' });
  expect((await handle.describe()).jitterMs).toBe(120_000);
  expect((await raw.describe()).state.remainingActions).toBe(5);
  await handle.remove();
});
