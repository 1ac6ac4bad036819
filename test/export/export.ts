import { fork, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { WorkflowNotFoundError } from '@temporalio/client';
import type { Worker, WorkerOptions } from '@temporalio/worker';
import { parquetReadObjects } from 'hyparquet';
import {
  createExportActivities,
  type ExportActivitiesDependencies,
} from '../../src/activities/visitor-export/export-activities.js';
import {
  exportTaskQueue,
  requestQueueId,
  VISITOR_EXPORT_WORKFLOW,
  visitorExportWorkflowId,
  type SnapshotManifest,
  type VisitorExportInput,
  type VisitorExportRange,
  type VisitorExportResult,
} from '../../src/contract.js';
import { manifestKey } from '../../src/exports/snapshots/layout.js';
import { openStore } from '../../src/exports/snapshots/open-store.js';
import type { SnapshotStore } from '../../src/exports/snapshots/snapshot-store.js';
import { startSandbox, type Sandbox, type SandboxOptions } from '../../src/testing.js';
import { createUpstream } from '../../src/upstream/client.js';
import { createKeySource } from '../../src/upstream/keys.js';
import type { Upstream, VisitorPage, VisitorsRequest } from '../../src/upstream/upstream.js';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { afterAll, afterEach, beforeAll, beforeEach, vi } from 'vitest';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { type Drift, MovingVisitors, type Shown } from '../support/moving-visitors.js';
import { startTimeSkipping } from '../support/time-skipping.js';
import { createTestWorker, createWorker } from '../support/worker.js';
import { parquetPath } from '../snapshots/published.js';

/** The queue that all exports share. */
export const ALL_EXPORTS = { operation: 'visitors', projectId: null } as const;

// Whole exports with real workers: a busy machine takes its time.
vi.setConfig({ testTimeout: 120_000 });

/**
 * A sandbox upstream, a folder of snapshots, and a task queue that no other test uses: one that failed may still have
 * its workers.
 */
export interface ExportSetUp {
  server: TestServer;
  sandbox: Sandbox;
  upstream: Upstream & { close(): Promise<void> };
  store: SnapshotStore;
  root: string;
  projectId: string;
  close(): Promise<void>;
}

export async function setUpExport(server: TestServer, options: SandboxOptions = {}): Promise<ExportSetUp> {
  const sandbox = await startSandbox(options);
  const upstream = createUpstream({
    baseUrl: sandbox.url,
    keys: createKeySource({ adminApiKey: sandbox.apiKey }),
    timeoutMs: 5_000,
    notTakenStatuses: [],
  });
  const root = await mkdtemp(join(tmpdir(), 'agent-jobs-export-'));
  return {
    server: { ...server, taskQueue: `test-${randomUUID()}` },
    sandbox,
    upstream,
    store: await openStore(pathToFileURL(root).href),
    root,
    projectId: `p-${randomUUID()}`,
    async close() {
      await endQueue(server);
      await upstream.close();
      await sandbox.close();
      await rm(root, { recursive: true, force: true });
    },
  };
}

/** Ends the queue of all exports: its workflow tasks are on the task queue of the test that began it. */
async function endQueue({ client }: TestServer): Promise<void> {
  const queue = client.workflow.getHandle(requestQueueId(ALL_EXPORTS));
  await queue.terminate('the test is over').catch((error: unknown) => {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  });
}

/** For a test file: a dev server, the shared one by default, and a new set-up of exports for each test. */
export function useExport(options: SandboxOptions, connect: () => Promise<TestServer> = connectDevServer): ExportSetUp {
  const setUp = {} as ExportSetUp;
  let server: TestServer;
  beforeAll(async () => {
    server = await connect();
  });
  afterAll(() => server.close());
  beforeEach(async () => {
    Object.assign(setUp, await setUpExport(server, options));
  });
  afterEach(() => setUp.close());
  return setUp;
}

/**
 * For tests with long waits: a server that skips time, and a set-up of exports, for each test. What one test leaves
 * behind, such as a task that its worker never ended, would keep the server from skipping for the next. So would a
 * signal that meets the queue's continue-as-new: keep below 150 turns.
 */
export function useSkippedTime(
  options: (environment: TestWorkflowEnvironment) => SandboxOptions | Promise<SandboxOptions>,
): { setUp: ExportSetUp; environment: TestWorkflowEnvironment } {
  const tests = {} as { setUp: ExportSetUp; environment: TestWorkflowEnvironment };
  beforeEach(async () => {
    const environment = await startTimeSkipping();
    const { client, nativeConnection, namespace = 'default', address } = environment;
    const close = async () => {};
    const server = { address, client, nativeConnection, namespace, taskQueue: '', close };
    Object.assign(tests, { environment, setUp: await setUpExport(server, await options(environment)) });
  });
  afterEach(async () => {
    await tests.setUp.close();
    await tests.environment.teardown();
  });
  return tests;
}

/** Runs workers of both task queues while the work goes on. */
export async function withWorkers<T>(
  { server, upstream, store }: ExportSetUp,
  work: () => Promise<T>,
  overrides: Partial<ExportActivitiesDependencies> = {},
): Promise<T> {
  const shutdown = new AbortController();
  const activities = createExportActivities({ upstream, store, shutdownSignal: shutdown.signal, ...overrides });
  const workers = [await workflowWorker(server), await exportWorker(server, activities)];
  return running(workers, work).finally(() => shutdown.abort());
}

/** A worker of the workflows alone. */
export function workflowWorker({ nativeConnection: connection, taskQueue, namespace }: TestServer): Promise<Worker> {
  return createTestWorker({ connection, namespace, taskQueue, activities: {} });
}

/** A worker of the export task queue alone. */
export function exportWorker(
  { nativeConnection: connection, taskQueue, namespace }: TestServer,
  activities: object,
  more: Partial<WorkerOptions> = {},
): Promise<Worker> {
  return createWorker({ connection, namespace, taskQueue: exportTaskQueue(taskQueue), activities, ...more });
}

/** The settings of a worker process. */
export interface WorkerSettings {
  address: string;
  namespace: string;
  taskQueue: string;
  baseUrl: string;
  apiKey: string;
  root: string;
  requestsPerHour?: string;
  /** It reports each request before it sends it. */
  tellsRequests?: boolean;
}

/** A worker of the export task queue in a process of its own, which the caller ends. */
export function forkExportWorker(
  { server, sandbox, root }: ExportSetUp,
  more: Pick<WorkerSettings, 'requestsPerHour' | 'tellsRequests'> = {},
): ChildProcess {
  const { address, namespace, taskQueue } = server;
  const settings: WorkerSettings = {
    address,
    namespace,
    taskQueue: exportTaskQueue(taskQueue),
    baseUrl: sandbox.url,
    apiKey: sandbox.apiKey,
    root,
    ...more,
  };
  const script = fileURLToPath(new URL('./worker-process.ts', import.meta.url));
  return fork(script, [JSON.stringify(settings)], { execArgv: ['--import', 'tsx'] });
}

async function running<T>(workers: Worker[], work: () => Promise<T>): Promise<T> {
  const runs = workers.map((worker) => worker.run());
  try {
    return await work();
  } finally {
    for (const worker of workers) worker.shutdown();
    await Promise.all(runs);
  }
}

export function rangeOf(
  { projectId }: ExportSetUp,
  dateFrom = '2026-01-01',
  dateTo = '2026-01-02',
): VisitorExportRange {
  return { projectId, dateFrom, dateTo };
}

/** Starts an export; under the date range's own id by default. */
export async function startExport({ server }: ExportSetUp, input: VisitorExportInput, workflowId = exportIdOf(input)) {
  return server.client.workflow.start<(input: VisitorExportInput) => Promise<VisitorExportResult>>(
    VISITOR_EXPORT_WORKFLOW,
    { taskQueue: server.taskQueue, workflowId, args: [input] },
  );
}

/** A run as a Schedule starts it at a whole minute. */
export async function startScheduledRun(
  { server, projectId }: ExportSetUp,
  input = { timeZone: 'Europe/Paris', days: 2 },
  scheduledAt = new Date('2026-03-10T00:00:00Z'),
) {
  const scheduleId = `schedule-${projectId}`;
  const schedule = await server.client.schedule.create({
    scheduleId,
    spec: { intervals: [{ every: '1 minute' }] },
    state: { paused: true },
    action: {
      type: 'startWorkflow',
      workflowType: VISITOR_EXPORT_WORKFLOW,
      workflowId: scheduleId,
      taskQueue: server.taskQueue,
      args: [{ projectId, ...input }],
    },
  });
  await schedule.backfill({ start: new Date(scheduledAt.getTime() - 1_000), end: scheduledAt, overlap: 'ALLOW_ALL' });
  const handle = server.client.workflow.getHandle<(input: VisitorExportInput) => Promise<VisitorExportResult>>(
    `${scheduleId}-${scheduledAt.toISOString().replace('.000', '')}`,
  );
  await until(() => handle.describe().then(Boolean, () => false));
  await schedule.delete();
  return handle;
}

/** What the run's activities failed with so far. */
export async function failureMessages(handle: Awaited<ReturnType<typeof startExport>>): Promise<string[]> {
  const { events } = await handle.fetchHistory();
  const failures = (events ?? []).flatMap((event) => event.activityTaskFailedEventAttributes ?? []);
  return failures.map(({ failure }) => failure?.message ?? '');
}

/** How long a closed run took, as Temporal counts time. */
export async function durationOf({ server }: ExportSetUp, input: VisitorExportRange): Promise<number> {
  const { startTime, closeTime } = await server.client.workflow.getHandle(exportIdOf(input)).describe();
  return (closeTime?.getTime() ?? Number.NaN) - startTime.getTime();
}

export async function runExport(setUp: ExportSetUp, input: VisitorExportInput, workflowId?: string) {
  return (await startExport(setUp, input, workflowId)).result();
}

export function exportIdOf(input: VisitorExportInput): string {
  return 'dateFrom' in input ? visitorExportWorkflowId(input.projectId, input.dateFrom, input.dateTo) : randomUUID();
}

export async function visitorRequests({ sandbox }: ExportSetUp): Promise<number> {
  return (await sandbox.counts()).operations.visitors.requests;
}

/** The upstream, whose visitors move while this date range is read. */
export async function moving(
  { sandbox, upstream }: ExportSetUp,
  range: VisitorExportRange,
  ...drift: Drift[]
): Promise<{ upstream: Upstream; visitors: MovingVisitors }> {
  const { entries, totals } = await sandbox.expectedSnapshot(range);
  const visitors = new MovingVisitors(() => ({ rows: entries, totals }) as Shown, drift);
  return { visitors, upstream: distorted(upstream, (_, request) => visitors.page(request)) };
}

/** The upstream, whose pages are changed on the way. */
export function distorted(
  upstream: Upstream,
  change: (page: VisitorPage, request: VisitorsRequest) => VisitorPage,
): Upstream {
  // Kept, for the caller may put the changed one in its place.
  const given = upstream.getVisitors;
  const getVisitors: Upstream['getVisitors'] = async (request, options) =>
    change(await given(request, options), request);
  return { ...upstream, getVisitors };
}

/** The failure with which a run ended. */
export async function failureOfRun(
  result: Promise<unknown>,
): Promise<{ type: string; message: string; details: unknown[] }> {
  const error = (await result.then(
    () => {
      throw new Error('The run did not fail');
    },
    (thrown: unknown) => thrown,
  )) as { cause?: { type?: string; message?: string; details?: unknown[] } };
  const { type = '', message = '', details = [] } = error.cause ?? {};
  return { type, message, details };
}

export async function publishedRows({ root }: ExportSetUp, range: VisitorExportRange) {
  const bytes = await readFile(parquetPath(root, range));
  const rows = await parquetReadObjects({ file: new Uint8Array(bytes).buffer });
  return rows.map(({ path, human, ai, total }) => ({
    path: String(path),
    human: Number(human),
    ai: Number(ai),
    total: Number(total),
  }));
}

export async function publishedManifest({ root }: ExportSetUp, range: VisitorExportRange): Promise<SnapshotManifest> {
  return JSON.parse(await readFile(join(root, manifestKey(range)), 'utf8')) as SnapshotManifest;
}

/** What lies in the store's folder, by its first names, but the marks of projects: they stay. */
export async function topFolders({ root }: ExportSetUp): Promise<string[]> {
  return (await readdir(root)).filter((name) => name !== 'projects').sort();
}

/** Waits until something holds, for at most a minute and a half. */
export async function until(holds: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await holds()); tries++) {
    if (tries > 1_800) throw new Error('It never came true');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
