import { randomBytes, randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import {
  AGENT_JOB_WORKFLOW,
  FAILURE,
  followUpSignal,
  jobStateQuery,
  resolveUnknownUpdate,
  VISITOR_EXPORT_WORKFLOW,
  type AgentJobInput,
} from '../../src/contract.js';
import { freePort } from '../../src/local/child-process.js';
import type { FaultRule } from '../../src/testing.js';
import { runInProcess } from '../cli/run-in-process.js';
import { textIn } from '../support/text-in.js';
import { until } from '../support/worker-process.js';
import { useSystem } from './system.js';
import { newFolder } from '../support/folder.js';

const KEY = `key-${randomBytes(24).toString('hex')}`;
/**
 * Stands next to the key in what the upstream says, so that a search which finds nothing has looked in the right
 * places.
 */
const MARKER = `said-with-the-key-${randomUUID()}`;
/** Even a part of a key is too much. */
const PART = KEY.slice(0, 14);
const ECHO = `${MARKER} Bearer ${KEY}`;
const WINDOW = { projectId: 'exported', dateFrom: '2026-01-01', dateTo: '2026-01-02' };

const system = useSystem({ apiKey: KEY, script: { activeMs: 500 } });
const snapshots = newFolder();

/** Faults by the name of the project whose job meets them; all of them show the key to the worker. */
const FAULTS: Record<string, FaultRule[]> = {
  'rejected-400': [
    { kind: 'status', operation: 'create', status: 400, body: { error: ECHO, details: [{ message: KEY }] } },
  ],
  // This and the redirected one wait until they are cancelled.
  'refused-401': [{ kind: 'status', operation: 'create', status: 401, body: { error: ECHO } }],
  'rejected-text': [{ kind: 'status', operation: 'create', status: 422, body: `${MARKER} ${'x'.repeat(440)} ${KEY}` }],
  redirected: [
    { kind: 'status', operation: 'create', status: 307, headers: { location: `http://127.0.0.1:9/${KEY}?key=${KEY}` } },
  ],
  unknown: [{ kind: 'status', operation: 'create', status: 500, body: ECHO, headers: { 'x-echo': KEY } }],
  unreadable: [{ kind: 'status', operation: 'create', status: 201, body: `{"id": "${KEY}` }],
  polled: [
    { kind: 'status', operation: 'get', status: 401, body: { error: ECHO } },
    { kind: 'status', operation: 'get', status: 503, body: ECHO, retryAfter: KEY },
    { kind: 'status', operation: 'get', status: 200, body: `{"id": "x", "status": ["${KEY}"]}` },
    { kind: 'status', operation: 'get', status: 429, body: ECHO, retryAfter: KEY },
    { kind: 'status', operation: 'message', status: 400, body: { error: `${MARKER} ${'y'.repeat(140)} ${KEY}` } },
  ],
};
const NEED_ATTENTION = ['unknown', 'unreadable'];

async function textInFolder(folder: string): Promise<string> {
  const files = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
  const texts = files.map(
    async ({ parentPath, name }) => `${name}\n${await readFile(join(parentPath, name), 'latin1')}`,
  );
  return (await Promise.all(texts)).join('\n');
}

test('the API key is in no history, log, metric, error, command output or snapshot', { timeout: 400_000 }, async () => {
  const { sandbox, server } = system;
  const { client, taskQueue } = server;
  const healthPort = await freePort();
  const metricsPort = await freePort(undefined, [healthPort]);
  const worker = system.startWorker({
    LOG_LEVEL: 'trace',
    HEALTH_ADDRESS: `127.0.0.1:${healthPort}`,
    METRICS_ADDRESS: `127.0.0.1:${metricsPort}`,
    SNAPSHOTS_URL: pathToFileURL(snapshots).href,
  });
  for (const [projectId, rules] of Object.entries(FAULTS)) {
    for (const rule of rules) await sandbox.addFault({ projectId, ...rule });
  }
  await sandbox.addFault({
    kind: 'status',
    operation: 'visitors',
    projectId: 'refused',
    status: 403,
    body: { error: ECHO },
  });

  const idOf = (projectId: string) => `agent-job/${projectId}/secrets`;
  const start = (projectId: string) => {
    const args: [AgentJobInput] = [{ projectId, prompt: 'Say hello', polling: { min: 1_000, max: 1_000 } }];
    return client.workflow.start(AGENT_JOB_WORKFLOW, { taskQueue, workflowId: idOf(projectId), args });
  };
  const jobs = await Promise.all(Object.keys(FAULTS).map(start));
  await client.workflow.getHandle(idOf('polled')).signal(followUpSignal, { prompt: 'Go on', id: 'rejected' });
  const exports = [WINDOW, { ...WINDOW, projectId: 'refused' }].map((range) =>
    client.workflow.start(VISITOR_EXPORT_WORKFLOW, {
      taskQueue,
      workflowId: `export-${range.projectId}-secrets`,
      args: [range],
    }),
  );
  const handles = [...jobs, ...(await Promise.all(exports))];

  const read: Record<string, string> = {};
  for (const projectId of NEED_ATTENTION) {
    const handle = client.workflow.getHandle(idOf(projectId));
    await until(
      async () => (await handle.query(jobStateQuery)).phase === 'needsAttention',
      `${projectId} to need attention`,
      worker.output,
    );
  }
  for (const [projectId, what] of [
    ['refused-401', 'key'],
    ['redirected', 'upstream'],
  ] as const) {
    const waiting = client.workflow.getHandle(idOf(projectId));
    await expect.poll(async () => (await waiting.query(jobStateQuery)).waiting?.for).toBe(what);
    read[`a state that waits: ${what}`] = textIn(await waiting.query(jobStateQuery));
    await waiting.cancel();
  }
  const cliEnv = { ...system.clientEnv(), UPSTREAM_BASE_URL: sandbox.url, ADMIN_API_KEY: KEY };
  const cli = async (...args: string[]) => {
    const { stdout, stderr } = await runInProcess(args, { env: cliEnv });
    read[`agent-jobs ${args.join(' ')}`] = stdout + stderr;
  };
  await cli('attention', '--json');
  for (const projectId of NEED_ATTENTION) {
    await client.workflow
      .getHandle(idOf(projectId))
      .executeUpdate(resolveUnknownUpdate, { args: [{ action: 'abandon' }] });
  }
  const ends = await Promise.all(handles.map((handle) => handle.result().catch((error: unknown) => error)));
  read['results and errors'] = ends.map((end) => textIn(end) + String((end as Error).stack)).join('\n');
  await sandbox.addFault({ kind: 'status', operation: 'get', projectId: 'set-up', status: 401, body: { error: ECHO } });
  await cli('doctor', '--project', 'set-up');
  await cli('wait', idOf('rejected-400'));
  await cli('state', idOf('polled'), '--json');
  await cli('list', '--json');
  for (const handle of handles) {
    read[`history of ${handle.workflowId}`] = textIn(await handle.fetchHistory());
    read[`description of ${handle.workflowId}`] = textIn((await handle.describe()).raw);
  }
  const get = async (port: number, path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).text();
  read['/metrics'] = await get(metricsPort, '/metrics');
  read['/readyz'] = await get(healthPort, '/readyz');
  read['the worker’s output'] = worker.output();
  read['snapshots'] = await textInFolder(snapshots);

  // The key was where the search could have missed it: accepted by the upstream, said by each fault, and next to what
  // was kept.
  expect((await sandbox.creates({ projectId: 'polled' })).length).toBe(1);
  const faults = await sandbox.faults();
  expect(faults.filter(({ injected }) => injected === 0)).toEqual([]);
  expect(textIn(faults)).toContain(KEY);
  expect(ends.filter((end) => end instanceof Error).map((end) => (end.cause as { type?: string }).type)).toEqual([
    FAILURE.createRejected,
    undefined, // cancelled
    FAILURE.createRejected,
    undefined, // cancelled
    FAILURE.exportRejected,
  ]);
  for (const place of [
    'history of agent-job/rejected-400/secrets',
    'history of agent-job/rejected-text/secrets',
    'history of agent-job/polled/secrets',
    'history of export-refused-secrets',
    'results and errors',
    `agent-jobs wait ${idOf('rejected-400')}`,
  ]) {
    expect(read[place], place).toContain(MARKER);
  }
  expect(read['snapshots']).toContain('PAR1');
  expect(read['/metrics']).toContain('agent_jobs_upstream_requests_total');

  const leaks = Object.entries(read).filter(([, text]) => text.includes(PART));
  expect(leaks.map(([place]) => place)).toEqual([]);
});
