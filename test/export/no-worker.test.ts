import type { MetricGauge } from '@temporalio/common';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { listWaitingExports } from '../../src/client/agent-job/attention.js';
import { visitorExportProgressQuery, visitorExportScheduleId } from '../../src/contract.js';
import { AgentJobs } from '../../src/starter.js';
import { countExportPollers, scheduledProjects, watchConsistentDays } from '../../src/worker/export-gauges.js';
import { createLogger } from '../../src/worker/logging.js';
import { connectDevServer } from '../support/dev-server.js';
import { gathered } from '../client/job-server.js';
import { exportIdOf, rangeOf, setUpExport, startExport, until, workflowWorker, type ExportSetUp } from './export.js';

let setUp: ExportSetUp;
beforeAll(async () => {
  setUp = await setUpExport(await connectDevServer());
});
afterAll(async () => {
  await setUp.close();
  await setUp.server.close();
});

const log = createLogger({ level: 'error', format: 'json' });
const gauge = (set: MetricGauge['set']) => ({ set }) as MetricGauge;

test('an export that no worker takes says so, with the name of the task queue', async () => {
  const workflows = await workflowWorker(setUp.server);
  await workflows.runUntil(async () => {
    const handle = await startExport(setUp, rangeOf(setUp));
    const { waitReason } = await handle.query(visitorExportProgressQuery);
    expect(waitReason).toBe(`no worker of the exports has begun yet (task queue ${setUp.server.taskQueue}-export)`);
    await handle.terminate();
  });
});

test('an export whose step no worker takes for an hour needs attention', async () => {
  const { client, taskQueue } = setUp.server;
  const range = rangeOf(setUp, '2026-02-01', '2026-02-02');
  const mine = async () => {
    const waiting = await gathered(listWaitingExports(client));
    return waiting.filter(({ workflowId }) => workflowId === exportIdOf(range));
  };
  const workflows = await workflowWorker(setUp.server);
  await workflows.runUntil(async () => {
    const handle = await startExport(setUp, range);
    await handle.query(visitorExportProgressQuery);
    const listed = `WorkflowId = '${handle.workflowId}' AND TaskQueue = '${taskQueue}'`;
    await until(async () => (await client.workflow.count(listed)).count === 1);
    expect(await mine()).toEqual([]);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 61 * 60_000 });
    expect(await mine().finally(() => vi.useRealTimers())).toMatchObject([{ waitsFor: 'worker' }]);
    await handle.terminate();
  });
});

test('workers that ask for exports are counted, none as 0', async () => {
  const { client, taskQueue } = setUp.server;
  const counts: number[] = [];
  const exportPollers = gauge((pollers) => counts.push(pollers));
  const stop = countExportPollers(client, taskQueue, { exportPollers }, log);
  await until(async () => counts.length > 0);
  stop();
  expect(counts).toEqual([0]);
});

test('a project with a Schedule has an age without a consistent day, and loses it with its Schedule', async () => {
  const { client, taskQueue } = setUp.server;
  const { projectId, store } = setUp;
  const before = Date.now();
  const jobs = new AgentJobs({ client, taskQueue });
  await jobs.scheduleExports({ projectId, paused: true });
  const schedules = () => scheduledProjects(client, taskQueue);
  await until(async () => (await schedules()).has(projectId));
  expect((await schedules()).get(projectId)).toBeGreaterThan(before - 60_000);
  const told: unknown[] = [];
  const dayAge = gauge((seconds, labels) => told.push([labels?.['project'], seconds]));
  const stop = watchConsistentDays({ store, schedules, meters: { dayAge, exportGaps: gauge(() => {}) }, log });
  await until(async () => told.length > 0);
  stop();
  expect(told[0]).toEqual([projectId, expect.any(Number)]);
  await client.schedule.getHandle(visitorExportScheduleId(projectId)).delete();
  await until(async () => !(await schedules()).has(projectId));
});

test('a Schedule whose id is not percent-encoded costs the other projects no numbers', async () => {
  const { client, taskQueue } = setUp.server;
  const scheduleId = `visitor-export/100%-${taskQueue}`;
  const action = { type: 'startWorkflow', workflowType: 'visitorExport', taskQueue, args: [{}] } as const;
  const schedule = await client.schedule.create({ scheduleId, spec: {}, state: { paused: true }, action });
  const name = `100%-${taskQueue}`;
  await until(async () => (await scheduledProjects(client, taskQueue)).has(name));
  expect((await new AgentJobs({ client }).exportSchedules()).map(({ projectId }) => projectId)).toContain(name);
  await schedule.delete();
});
