import { cpSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AGENT_JOB_WORKFLOW, jobStateQuery } from '../../src/contract.js';
import type { AgentJobInput } from '../../src/contract.js';
import { freePort } from '../../src/local/child-process.js';
import { startSandbox } from '../../src/sandbox/sandbox.js';
import { AgentJobs } from '../../src/starter.js';
import { envOf, jsonLines } from '../cli/run-cli.js';
import { runInProcess } from '../cli/run-in-process.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import { distFolder, startWorkerProcess, until, workerEnv } from '../support/worker-process.js';
import type { WorkerProcess } from '../support/worker-process.js';
import { useForFile } from '../support/use.js';
import { newFolder } from '../support/folder.js';

const SCHEDULED = 1; // temporal.api.enums.v1.PendingActivityState
const running: WorkerProcess[] = [];
// On the shared server jobs of other files are in doubt, some without a worker, and "attention" would list them.
const server = useForFile(connectOwnNamespace);
const sandbox = useForFile(() => startSandbox({ script: { activeMs: 3_600_000 } }));

afterAll(async () => {
  for (const worker of running.splice(0)) await worker.kill();
});

function start(env: Record<string, string> = {}, dist = distFolder): WorkerProcess {
  const worker = startWorkerProcess({ ...workerEnv(server, sandbox), ...env }, dist);
  running.push(worker);
  return worker;
}

function startJob(projectId: string, options: Partial<AgentJobInput> = {}) {
  const input = { projectId, prompt: 'Say hello', ...options };
  return server.client.workflow.start(AGENT_JOB_WORKFLOW, {
    workflowId: `agent-job/${projectId}/only`,
    taskQueue: server.taskQueue,
    args: [input],
  });
}

async function requestsOf(projectId: string, operation: 'create' | 'get'): Promise<number> {
  const requests = await sandbox.requests();
  return requests.filter((request) => request.projectId === projectId && request.operation === operation).length;
}

const JOBS = 5;
const HELD = 'drained-create';
const HANGING = 'hanging-poll';
const WAITING = Array.from({ length: JOBS }, (_, i) => `handed-back-${i}`);
const pollsOf = (projectIds: string[]) => Promise.all(projectIds.map((id) => requestsOf(id, 'get')));

describe('a bug in workflow code', () => {
  let brokenDist: string;
  beforeAll(() => (brokenDist = brokenBuild()));
  afterAll(() => rmSync(dirname(brokenDist), { recursive: true }));

  test('shows in log and metric, leaves the job alone, and a mended worker resumes it', async () => {
    const projectId = 'workflow-bug';
    const healthPort = await freePort();
    const metricsPort = await freePort(undefined, [healthPort]);
    const addresses = { HEALTH_ADDRESS: `127.0.0.1:${healthPort}`, METRICS_ADDRESS: `127.0.0.1:${metricsPort}` };
    const broken = start(addresses, brokenDist);
    const handle = await startJob(projectId);
    await broken.wrote('a bug of ours');
    const metrics = async () => (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
    await until(
      async () => /^temporal_workflow_task_execution_failed\{.*\} [1-9]/m.test(await metrics()),
      'the metric',
      broken.output,
    );
    const line = broken
      .output()
      .split('\n')
      .find((each) => each.includes('a bug of ours'));
    expect(JSON.parse(line!)).toMatchObject({ level: 'warn', workflowId: handle.workflowId });
    expect((await fetch(`http://127.0.0.1:${healthPort}/readyz`)).status).toBe(200);
    expect((await handle.describe()).status.name).toBe('RUNNING');
    const jobs = new AgentJobs({ client: server.client });
    const stuck = async () => {
      for await (const job of jobs.stuck()) if (job.workflowId === handle.workflowId) return job;
      return undefined;
    };
    await until(async () => (await stuck()) !== undefined, 'the job to be listed as stuck', broken.output);
    await listsAsStuck(handle.workflowId);
    broken.signal('SIGTERM');
    expect(await broken.ended).toBe(0);

    const mended = start();
    await until(async () => (await sandbox.creates({ projectId })).length === 1, 'the create', mended.output);
    // The list shows the task that went well a moment later.
    await until(async () => (await stuck()) === undefined, 'the job to be no longer listed as stuck', mended.output);
    await handle.terminate();
  });
});

describe('SIGTERM', () => {
  let code: number | null;
  let second: WorkerProcess;
  const handles = new Map<string, Awaited<ReturnType<typeof startJob>>>();
  let pollsBefore: number[];
  let pending: unknown[];

  /** One worker ends with a create in flight, with jobs that wait for their next poll, and with a poll that hangs. */
  beforeAll(async () => {
    // The mended one, if the test before this ran.
    const first = running.at(-1) ?? start();
    await sandbox.addFault({ kind: 'hang', operation: 'get', projectId: HANGING, count: 100 });
    const jobs = [HANGING, ...WAITING];
    for (const id of jobs) handles.set(id, await startJob(id, { polling: { min: '10 seconds' } }));
    await until(async () => (await pollsOf(jobs)).every((polls) => polls > 0), 'a poll of each', first.output);
    const fault = { kind: 'delay', operation: 'create', projectId: HELD, delayMs: 4_000, effect: 'after' } as const;
    await sandbox.addFault(fault);
    handles.set(HELD, await startJob(HELD));
    const isCreated = async () => (await sandbox.creates({ projectId: HELD })).length === 1;
    await until(isCreated, 'the create to arrive', first.output);
    pollsBefore = await pollsOf(WAITING);
    first.signal('SIGTERM');
    first.signal('SIGTERM');
    code = await first.ended;
    const described = await Promise.all(WAITING.map((id) => handles.get(id)!.describe()));
    pending = described.map(({ raw }) => raw.pendingActivities?.[0]);
    second = start();
  }, 180_000);
  afterAll(() => Promise.all([...handles.values()].map((handle) => handle.terminate())));

  test('lets a create in flight finish, and the next worker goes on with that one job', async () => {
    expect(code).toBe(0);
    await until(async () => (await requestsOf(HELD, 'get')) > 0, 'a poll by the next worker', second.output);
    const handle = handles.get(HELD)!;
    expect(await handle.query(jobStateQuery)).toMatchObject({ phase: 'watching', unknown: null });
    expect(await requestsOf(HELD, 'create')).toBe(1);
  });

  test('gives back at once all jobs that wait for their next poll, each with the rest of its wait', async () => {
    const message: unknown = expect.stringMatching(/^the worker is shutting down, next poll in \d+ s$/);
    const givenBack: unknown = expect.objectContaining({
      state: SCHEDULED,
      attempt: 2,
      lastFailure: expect.objectContaining({ message }),
    });
    expect(pending).toEqual(WAITING.map(() => givenBack));
    const haveAllGoneOn = async () => (await pollsOf(WAITING)).every((polls, i) => polls > pollsBefore[i]!);
    await until(haveAllGoneOn, 'a next poll of each', second.output, 120_000);
  });

  test('does not wait for a poll that hangs', async () => {
    expect(code).toBe(0);
    expect((await handles.get(HANGING)!.describe()).status.name).toBe('RUNNING');
  });
});

/** `attention` says what is wrong and what to do, to people and to programs. */
async function listsAsStuck(workflowId: string): Promise<void> {
  const { code, stdout } = await runInProcess(['attention'], { env: envOf(server) });
  const block = stdout.split('\n\n').find((each) => each.includes(workflowId));
  expect(block).toMatch(/its workflow task fails: .*WorkflowTaskFailed.*[^]*docs\/runbooks\.md/);
  expect(code).toBe(0);
  const json = await runInProcess(['attention', '--json'], { env: envOf(server) });
  const line = jsonLines(json.stdout).find((each) => each['workflowId'] === workflowId);
  const problems = expect.arrayContaining([expect.stringContaining('WorkflowTaskFailed')]) as string[];
  expect(line).toEqual({
    workflowId,
    projectId: null,
    stuck: { workflowType: 'agentJob', problems, pinnedTo: null, paused: null },
  });
}

/** A copy of the build whose workflow throws at its first line. */
function brokenBuild(): string {
  const folder = newFolder();
  const dist = join(folder, 'dist');
  cpSync(distFolder, dist, { recursive: true });
  for (const name of ['node_modules', 'package.json']) symlinkSync(join(dirname(distFolder), name), join(folder, name));
  const bundle = join(dist, 'workflow-bundle.js');
  const code = readFileSync(bundle, 'utf8');
  const broken = code.replace('async function agentJob(input) {', '$& throw new TypeError("a bug of ours");');
  if (broken === code) throw new Error('the bundle has no agentJob to break');
  writeFileSync(bundle, broken);
  return dist;
}
