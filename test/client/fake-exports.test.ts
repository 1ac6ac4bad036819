/** Exports: the fake and the real client, told the same, answer and refuse alike. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FakeAgentJobs, type AgentJobsLike, type FakeExport } from '../../src/client/fake/fake-agent-jobs.js';
import { AgentJobs } from '../../src/starter.js';
import type { SnapshotReceipt, VisitorExportRangeInput } from '../../src/contract.js';
import { setUpExport, withWorkers, type ExportSetUp } from '../export/export.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { givenUp, told } from './told.js';

let server: TestServer;
let setUp: ExportSetUp;
let real: AgentJobs;
beforeAll(async () => {
  server = await connectDevServer();
  setUp = await setUpExport(server, { visitors: { rows: 3 } });
  real = new AgentJobs({ client: server.client, taskQueue: setUp.server.taskQueue });
});
afterAll(async () => {
  await setUp.close();
  await server.close();
});

const DAY = { dateFrom: '2026-01-01', dateTo: '2026-01-02' };

/** Each is told the same of an own project. */
const STORIES: Record<string, (jobs: AgentJobsLike, projectId: string) => Promise<unknown>> = {
  'an export that is asked for wrongly': (jobs, projectId) => {
    const range = { projectId, ...DAY };
    const changes: object[] = [
      { projectId: '' },
      { dateFrom: '2026-02-30' },
      { dateTo: DAY.dateFrom },
      { dateFrom: undefined, dateTo: undefined },
      { timeZone: 'UTC' },
      { dateFrom: undefined, dateTo: undefined, timeZone: 'UTC' },
      { secondScan: 'yes' },
      { priority: 9 },
    ];
    return Promise.all([
      ...changes.map((change) => told(() => jobs.exportVisitors({ ...range, ...change }))),
      told(() => jobs.exportVisitors(undefined as unknown as VisitorExportRangeInput)),
      told(() => jobs.exportVisitors(range, { timeoutMs: 0 })),
      told(() => jobs.exportVisitors(range, { signal: givenUp() })),
    ]);
  },
};

describe.concurrent('the fake tells of exports what the real client tells', () => {
  test.each(Object.entries(STORIES))('%s', async (_title, story) => {
    const projectId = `p/${randomUUID()}`;
    expect(await story(new FakeAgentJobs(), projectId)).toEqual(await story(real, projectId));
  });

  /** What the story lets become of the export that runs. */
  type End = (workflowId: string, end: 'finished' | 'rejected' | 'canceled') => Promise<void>;

  const exported = async (jobs: AgentJobsLike, projectId: string, end: End) => {
    const start = async (dateTo: string) => jobs.exportVisitors({ projectId, ...DAY, dateTo, secondScan: false });
    const first = await start(DAY.dateTo);
    const second = await start(DAY.dateTo);
    const running = [
      first.workflowId,
      second.runId === first.runId,
      await told(() => first.result({ signal: givenUp() })),
    ];
    await end(first.workflowId, 'finished');
    const { snapshots } = await second.result();
    const receipts = snapshots.map(({ snapshotId: _, location: __, ...receipt }) => receipt);
    const third = await start(DAY.dateTo);
    const anew = [third.runId === first.runId, third.workflowId === first.workflowId];
    await end(third.workflowId, 'canceled');
    const rejected = await start('2026-01-03');
    await end(rejected.workflowId, 'rejected');
    const type = await rejected.result().catch((error: { type?: string }) => error.type);
    return [running, receipts, anew, await told(() => third.result()), await told(() => rejected.result()), type];
  };

  test('exports of a range, joined, finished, canceled and rejected', async () => {
    const projectId = `p/${randomUUID()}`;
    const { sandbox } = setUp;
    const byReal = await exported(real, projectId, async (workflowId, end) => {
      const handle = server.client.workflow.getHandle(workflowId);
      if (end === 'canceled') await handle.cancel();
      if (end === 'rejected') await sandbox.addFault({ kind: 'status', status: 422, operation: 'visitors' });
      await withWorkers(setUp, () => handle.result().catch(() => {}));
    });
    const [, [receipt]] = byReal as [unknown, [SnapshotReceipt]];
    const { rows, totals, files } = receipt;
    const fake = new FakeAgentJobs();
    const ends: Record<Parameters<End>[1], (running: FakeExport) => void> = {
      finished: (running) => running.finish({ rows, totals, files }),
      rejected: (running) => running.fail('ExportRejected', 'no such project'),
      canceled: (running) => running.cancel(),
    };
    const byFake = await exported(fake, projectId, async (workflowId, end) =>
      ends[end](fake.exports.findLast((one) => one.workflowId === workflowId)!),
    );
    expect(byFake).toEqual(byReal);
    expect(() => fake.exports[0]!.finish()).toThrow('has ended');
  });
});

test('a fake export tells the progress that the test gives it, and a receipt with all fields', async () => {
  const fake = new FakeAgentJobs();
  const handle = await fake.exportVisitors({ projectId: 'p', ...DAY });
  expect(await handle.progress()).toBe(null);
  const [running] = fake.exports;
  const progress = { ...DAY, scan: 1, pages: 2, rows: 200, expectedRows: null, waitReason: null, nextRequestAt: null };
  running!.progress = progress;
  expect(await handle.progress()).toEqual(progress);
  const waiting = handle.result();
  running!.finish({ rows: 250 });
  expect((await waiting).snapshots).toMatchObject([{ projectId: 'p', ...DAY, rows: 250, consistent: true }]);
  expect(running!.hasEnded).toBe(true);
});
