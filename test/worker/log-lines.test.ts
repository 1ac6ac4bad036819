import { tmpdir } from 'node:os';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import {
  AGENT_JOB_WORKFLOW,
  followUpSignal,
  resolveUnknownUpdate,
  VISITOR_EXPORT_WORKFLOW,
  visitorExportWorkflowId,
  type AgentJobInput,
} from '../../src/contract.js';
import { useSystem } from '../e2e/system.js';
import { TRACE_ID, tracedClient } from '../support/traced-client.js';
import { until, type WorkerProcess } from '../support/worker-process.js';
import { newFolder } from '../support/folder.js';

const PROMPT = 'Customer Jane Doe says that the login page is broken';
const system = useSystem({ script: { activeMs: 1_500 } });
const { server, sandbox } = system;
let worker: WorkerProcess;

const startWorker = (env?: Record<string, string>) => void (worker = system.startWorker(env));

function startJob(projectId: string, options: Partial<AgentJobInput> = {}, client = server.client) {
  return client.workflow.start(AGENT_JOB_WORKFLOW, {
    workflowId: `agent-job/${projectId}/${server.taskQueue}`,
    taskQueue: server.taskQueue,
    args: [{ projectId, prompt: PROMPT, polling: { min: 1_000, max: 1_000 }, settle: 0, ...options }],
  });
}

interface Line {
  level: string;
  msg: string;
  workflowId?: string;
}

function linesOf(workflowId: string, msg: string): Line[] {
  const lines = worker
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{'));
  return lines
    .map((line) => JSON.parse(line) as Line)
    .filter((line) => line.workflowId === workflowId && line.msg.startsWith(msg));
}

test('each write in doubt, rejected or held up, and each end has one line, with all ids', async () => {
  const fault = { kind: 'status', operation: 'create' } as const;
  await sandbox.addFault({ ...fault, projectId: 'in-doubt', status: 500 });
  await sandbox.addFault({
    ...fault,
    projectId: 'rejected',
    status: 400,
  });
  await sandbox.addFault({ ...fault, projectId: 'held', status: 429, retryAfter: '1', count: 3 });
  startWorker();
  const [inDoubt, rejected, held] = await Promise.all(
    ['in-doubt', 'rejected', 'held'].map((projectId) => startJob(projectId)),
  );
  for (const more of ['still', 'again']) {
    await held!.signal(followUpSignal, { prompt: `${PROMPT} ${more}`, id: 'more' });
  }
  const oneLine = async (handle: { workflowId: string }, msg: string, fields: object) => {
    await until(() => linesOf(handle.workflowId, msg).length > 0, `"${msg}"`, worker.output);
    expect(linesOf(handle.workflowId, msg)).toEqual([expect.objectContaining(fields)]);
  };
  await oneLine(inDoubt!, 'A write is in doubt', {
    level: 'warn',
    projectId: 'in-doubt',
    write: 'create',
    reason: 'upstream answered 500',
  });
  await oneLine(rejected!, 'The upstream rejected a write', {
    level: 'warn',
    projectId: 'rejected',
    status: 400,
  });
  await oneLine(rejected!, 'The job has ended', { level: 'info', outcome: 'CreateRejected', projectId: 'rejected' });
  await oneLine(held!, 'A followUp signal was ignored', {
    level: 'warn',
    reason: expect.stringContaining('"more" was taken before with another prompt'),
  });
  await held!.result();
  await oneLine(held!, 'A write waits', { level: 'info', projectId: 'held', reason: expect.stringContaining('429') });
  await oneLine(held!, 'The job has ended', {
    level: 'info',
    outcome: 'completed',
    jobId: expect.any(String),
  });
  await inDoubt!.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'abandon' }] });
  await oneLine(inDoubt!, 'The job has ended', { outcome: 'abandoned', projectId: 'in-doubt' });
  expect(worker.output()).not.toContain(PROMPT);
});

test('a page that an export can not read has one line, however often it is tried', async () => {
  await sandbox.addFault({ kind: 'status', operation: 'visitors', projectId: 'no-page', status: 503, count: 3 });
  const folder = newFolder();
  startWorker({ SNAPSHOTS_URL: pathToFileURL(folder).href });
  const { client, taskQueue } = server;
  const [projectId, dateFrom, dateTo] = ['no-page', '2026-01-01', '2026-01-02'] as const;
  const workflowId = visitorExportWorkflowId(projectId, dateFrom, dateTo);
  await client.workflow.execute(VISITOR_EXPORT_WORKFLOW, {
    workflowId,
    taskQueue,
    args: [{ projectId, dateFrom, dateTo }],
  });
  const reason = expect.stringContaining('upstream answered 503 (visitors') as string;
  await until(() => linesOf(workflowId, 'An export').length > 0, 'the line', worker.output);
  expect(linesOf(workflowId, 'An export')).toEqual([
    expect.objectContaining({ level: 'warn', projectId, dateFrom, reason }),
  ]);
});

test('a worker of both roles and a normal job leave no warning', async () => {
  startWorker({ SNAPSHOTS_URL: pathToFileURL(tmpdir()).href, METRICS_ADDRESS: '127.0.0.1:0' });
  const job = await startJob('normal');
  await job.signal(followUpSignal, { prompt: PROMPT, id: 'one' });
  await job.result();
  worker.signal('SIGTERM');
  expect(await worker.ended).toBe(0);
  expect(worker.output()).toContain('The job has ended');
  expect(worker.output()).not.toMatch(/"level":"(warn|error)"/);
});

test('the lines of a job and of its activities have the trace id of its caller', async () => {
  startWorker({ LOG_LEVEL: 'debug' });
  const job = await startJob('traced', {}, tracedClient(server.client));
  await job.result();
  await until(() => linesOf(job.workflowId, 'The job has ended').length > 0, 'the end', worker.output);
  for (const msg of ['Activity completed', 'The upstream took a write', 'The job has ended']) {
    const lines = linesOf(job.workflowId, msg);
    expect(lines.length, msg).toBeGreaterThan(0);
    for (const line of lines) expect(line).toMatchObject({ trace_id: TRACE_ID });
  }
});
