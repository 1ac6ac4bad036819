/**
 * Records the histories of this version: `npm run record-histories`. It only adds: a history that a release has
 * recorded is what running jobs look like, and must replay for ever.
 */
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { DevServer } from '../../src/embedded/dev-server.js';
import { connectTo, startPrivateDevServer, type TestServer } from '../support/dev-server.js';
import { startJobBench } from '../support/job-bench.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { historiesFolder } from './histories.js';
import { SCENARIOS, type Handle, type Scenario } from './scenarios.js';

describe.runIf(process.env['RECORD_HISTORIES'])('record', () => {
  let devServer: DevServer;
  let server: TestServer;

  beforeAll(async () => {
    devServer = await startPrivateDevServer({
      dynamicConfig: {
        'history.timerProcessorMaxTimeShift': '"50ms"',
        'limit.historyCount.suggestContinueAsNew': '100',
      },
    });
    server = await connectTo(devServer);
  });
  afterAll(async () => {
    await server.close();
    await devServer.stop();
  });

  test.concurrent.for(Object.entries(SCENARIOS))('%s', { timeout: 120_000 }, async ([name, scenario]) => {
    const histories = await live(server, name, scenario);
    expect(histories.length).toBeGreaterThan(0);
    for (const [i, json] of histories.entries()) await keep(`${name}${i ? `-${i + 1}` : ''}`, json);
  });
});

async function keep(name: string, json: string): Promise<void> {
  const file = new URL(`${name}.json`, historiesFolder());
  await mkdir(historiesFolder(), { recursive: true });
  if (!existsSync(file)) await writeFile(file, json);
}

/** Lives a scenario and tells the history of each of its runs. */
async function live(server: TestServer, name: string, { input, upstream: prepare, act }: Scenario): Promise<string[]> {
  const upstream = new ScriptedUpstream();
  prepare?.(upstream);
  const bench = await startJobBench(server, upstream);
  try {
    const { workflowId, firstExecutionRunId } = await bench.start(input, { workflowId: `agent-job/recorded/${name}` });
    const handle: Handle = server.client.workflow.getHandle(workflowId);
    await act?.(handle, upstream);
    await handle.result().catch(() => {});
    return await historiesOf(server, workflowId, firstExecutionRunId);
  } finally {
    await bench.stop();
  }
}

async function historiesOf(server: TestServer, workflowId: string, firstRunId: string): Promise<string[]> {
  const histories: string[] = [];
  for (let runId: string | undefined = firstRunId; runId;) {
    const history = await server.client.workflow.getHandle(workflowId, runId).fetchHistory();
    histories.push(historyToJSON(history));
    runId = history.events?.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId ?? undefined;
  }
  return histories;
}
