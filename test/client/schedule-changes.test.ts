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
    handleOver: others.recurring(job),
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

/** Does something after the first update. */
function after(work: (handle: JobScheduleHandle) => Promise<unknown>) {
  return (service: Service, handle: JobScheduleHandle) => {
    let isDone = false;
    return {
      async updateSchedule(request: Parameters<Service['updateSchedule']>[0]) {
        const response = await service.updateSchedule(request);
        if (!isDone) await work(handle);
        isDone = true;
        return response;
      },
    };
  };
}

const WHOLE = { prompt: 'Review {time}', cron: '0 5 * * *', jitter: '1 minute' };

test.for([
  ['before', (work: (handle: JobScheduleHandle) => Promise<void>) => beforeOnce(work)],
  ['after', after],
] as const)('a removal %s the write ends a change, and a whole one makes the Schedule anew', async ([, at]) => {
  const removed = await recurring(at((made) => made.remove()));
  const change = removed.setOver({ jitter: '1 minute' });
  await expect(change).rejects.toThrow('prompt must be given: project');
  await expect(removed.handle.describe()).rejects.toThrow(ScheduleMissingError);
  const whole = await recurring(at((made) => made.remove()));
  expect((await whole.setOver(WHOLE)).isNew).toBe(true);
  expect(await whole.handle.describe()).toMatchObject({ prompt: 'Review {time}', jitterMs: 60_000 });
  await whole.handle.remove();
});

/** The same before the first update. */
function beforeOnce(work: (handle: JobScheduleHandle) => Promise<unknown>) {
  return (service: Service, handle: JobScheduleHandle) => before([() => work(handle)])(service);
}

test('a pause that another tool undoes before it is seen is made again, and so is its end', async () => {
  const { handle, raw, handleOver } = await recurring(after(() => raw.unpause('by another tool')));
  await handleOver.pause('a freeze');
  expect(await handle.describe()).toMatchObject({ paused: true, note: 'a freeze' });
  const again = await recurring(after(() => again.raw.pause('by another tool')));
  await again.handleOver.resume();
  expect(await again.handle.describe()).toMatchObject({ paused: false, note: 'resumed' });
  await Promise.all([handle.remove(), again.handle.remove()]);
});

test('a pause of a Schedule that is not there says so', async () => {
  const { handle } = await recurring();
  await handle.remove();
  for (const call of ['pause', 'resume', 'trigger'] as const) {
    await expect(handle[call]()).rejects.toThrow(ScheduleMissingError);
  }
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

test('where another tool set a limit of actions, the loser of two changes is made again, and it stays', async () => {
  const { handle, raw, set, setOver } = await recurring(before([() => set({ priority: 1 })]));
  expect((await raw.describe()).state.remainingActions).toBeUndefined();
  await raw.update((current) => ({ ...current, state: { ...current.state, remainingActions: 5 } }));
  await expect.poll(async () => (await raw.describe()).state.remainingActions).toBe(5);
  await setOver({ jitter: '2 minutes' });
  expect(await handle.describe()).toMatchObject({ jitterMs: 120_000, options: { priority: 1 } });
  expect((await raw.describe()).state.remainingActions).toBe(5);
  await handle.remove();
});
