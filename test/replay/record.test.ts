/**
 * Records the histories of this version: `npm run test:record-histories`, and before a release those of the next one:
 * `RELEASE=1.2.3 npm run test:record-histories`. It only adds: a history that a release has recorded is what running
 * jobs look like, and must replay for ever.
 */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import type { Client } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { setUpExport, rangeOf, startExport, withWorkers } from '../export/export.js';
import { connectTo, startPrivateDevServer, type TestServer } from '../support/dev-server.js';
import { startJobBench } from '../support/job-bench.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { EXPORT_SCENARIOS, type ExportHandle, type ExportScenario } from './export-scenarios.js';
import { historiesFolder } from './histories.js';
import { QUEUE_SCENARIOS, queuesOf, type QueueLife, type QueueScenario } from './queue-scenarios.js';
import { SCENARIOS, type Handle, type Scenario } from './scenarios.js';
import { VERSION_SCENARIOS } from './version-scenarios.js';

describe('record', () => {
  let server: TestServer;
  let stop: () => Promise<void>;

  beforeAll(async () => {
    ({ server, stop } = await startServer());
  });
  afterAll(() => stop());

  test.concurrent.for(Object.entries(SCENARIOS))('%s', { timeout: 120_000 }, async ([name, scenario]) => {
    const histories = await live(server, name, scenario);
    expect(histories.length).toBeGreaterThan(0);
    await keep(name, histories);
  });

  test.concurrent.for(Object.entries(EXPORT_SCENARIOS))('%s', { timeout: 120_000 }, async ([name, scenario]) => {
    const { takesTurns = false, mostEvents } = scenario;
    const own = takesTurns || mostEvents !== undefined ? await startServer(mostEvents) : null;
    const histories = await liveExport(own?.server ?? server, name, scenario);
    await own?.stop();
    expect(histories.length).toBeGreaterThan(0);
    await keep(name, histories);
  });

  test.concurrent.for(Object.entries(QUEUE_SCENARIOS))('%s', { timeout: 120_000 }, async ([name, scenario]) => {
    const histories = await liveInQueue(server, name, scenario);
    expect(histories.length).toBeGreaterThan(0);
    await keep(name, histories);
  });

  test.concurrent.for(Object.entries(VERSION_SCENARIOS))('%s', { timeout: 120_000 }, async ([name, live]) => {
    const histories = await historiesOfAll(server.client, await live(server));
    expect(histories).toHaveLength(2);
    await keep(name, histories);
  });
});

/** @param mostEvents After which it suggests to continue as new. */
async function startServer(mostEvents = 100): Promise<{ server: TestServer; stop: () => Promise<void> }> {
  const dynamicConfig = {
    'history.timerProcessorMaxTimeShift': '"50ms"',
    'limit.historyCount.suggestContinueAsNew': String(mostEvents),
  };
  const devServer = await startPrivateDevServer({ dynamicConfig });
  const server = await connectTo(devServer);
  const stop = async () => {
    await server.close();
    await devServer.stop();
  };
  return { server, stop };
}

async function keep(name: string, histories: readonly string[]): Promise<void> {
  await mkdir(historiesFolder(), { recursive: true });
  for (const [i, json] of histories.entries()) {
    const file = new URL(`${name}${i ? `-${i + 1}` : ''}.json`, historiesFolder());
    if (!existsSync(file)) await writeFile(file, toFile(json));
  }
}

/** What belongs to the machine that recorded, and to its server: a replay reads none of it. */
const UNREAD = [
  'stackTrace',
  'identity',
  'requestId',
  'taskId',
  'historySizeBytes',
  'workerVersion',
  'meteringMetadata',
];

/** An event a line. */
function toFile(json: string): string {
  const { events } = JSON.parse(json.replaceAll(tmpdir(), ''), (key, value: unknown) =>
    UNREAD.includes(key) ? undefined : value,
  ) as { events: object[] };
  return `{"events":[\n${events.map((event) => JSON.stringify(event)).join(',\n')}\n]}\n`;
}

/** Lives a scenario and returns the history of each of its runs. */
async function live(server: TestServer, name: string, { input, upstream: prepare, act }: Scenario): Promise<string[]> {
  const upstream = new ScriptedUpstream();
  prepare?.(upstream);
  const bench = await startJobBench(server, upstream, { taskQueue: name });
  try {
    // It has a project of its own: what one meets is no other's.
    const job = { ...input, projectId: name };
    const { workflowId, firstExecutionRunId } = await bench.start(job, { workflowId: `agent-job/recorded/${name}` });
    const handle: Handle = server.client.workflow.getHandle(workflowId);
    await act?.(handle, upstream);
    await handle.result().catch(() => {});
    return await historiesOf(server, workflowId, firstExecutionRunId);
  } finally {
    await bench.stop();
  }
}

/** Lives a scenario of writes that wait and returns the history of each run: of the jobs, then of their queues. */
async function liveInQueue(server: TestServer, taskQueue: string, { act }: QueueScenario): Promise<string[]> {
  const upstream = new ScriptedUpstream();
  const bench = await startJobBench(server, upstream, { taskQueue });
  const life: QueueLife = { client: server.client, bench, upstream, projectId: `queued-${randomUUID()}` };
  try {
    const jobs = await act(life);
    const histories: string[] = [];
    for (const id of [...jobs, ...queuesOf(life)]) histories.push(...(await historiesOfAll(server.client, id)));
    return histories;
  } finally {
    await bench.stop();
  }
}

/** The histories of every run of a workflow id, the oldest first; none if there is no such workflow. */
async function historiesOfAll(client: Client, workflowId: string): Promise<string[]> {
  const histories: string[] = [];
  for (let runId: string | null | undefined; ;) {
    const handle = client.workflow.getHandle(workflowId, runId ?? undefined);
    const history = await handle.fetchHistory().catch(() => null);
    if (!history) return histories;
    histories.unshift(historyToJSON(history));
    runId = history.events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId;
    if (!runId) return histories;
  }
}

/** Lives a scenario of the export and returns the history of each of its runs, its children's too. */
async function liveExport(
  shared: TestServer,
  taskQueue: string,
  { visitors, prepare, start }: ExportScenario,
): Promise<string[]> {
  const server = { ...shared, taskQueue };
  const setUp = await setUpExport(server, visitors ? { visitors } : {});
  try {
    await prepare?.(setUp);
    return await withWorkers(setUp, async () => {
      const handles = (await start?.(setUp)) ?? [await startExport(setUp, rangeOf(setUp))];
      const histories: string[] = [];
      for (const handle of handles) {
        await handle.result().catch(() => {});
        histories.push(...(await historiesOf(server, handle.workflowId, await firstRunOf(handle))));
      }
      return histories;
    });
  } finally {
    await setUp.close();
  }
}

/** A window's own id may have had several chains of runs: a handle from a start knows its own. */
async function firstRunOf(handle: ExportHandle): Promise<string> {
  const { firstExecutionRunId } = handle as { firstExecutionRunId?: string };
  return firstExecutionRunId ?? (await handle.describe()).runId;
}

/** The histories of a chain of runs, each followed by its children's. */
async function historiesOf(server: TestServer, workflowId: string, firstRunId: string): Promise<string[]> {
  const histories: string[] = [];
  for (let runId: string | undefined = firstRunId; runId;) {
    const history = await server.client.workflow.getHandle(workflowId, runId).fetchHistory();
    histories.push(historyToJSON(history));
    for (const { childWorkflowExecutionStartedEventAttributes: started } of history.events ?? []) {
      const { workflowId: childId, runId: childRunId } = started?.workflowExecution ?? {};
      if (childId && childRunId) histories.push(...(await historiesOf(server, childId, childRunId)));
    }
    runId = history.events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId ?? undefined;
  }
  return histories;
}
