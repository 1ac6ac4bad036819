import { afterAll, describe, expect, test } from 'vitest';
import { WRITE_OUTCOMES } from '../../src/activities/metrics.js';
import {
  AGENT_JOB_WORKFLOW,
  type AgentJobInput,
  JOB_ENDS,
  jobStateQuery,
  PHASES,
  resolveUnknownUpdate,
  SHOWN_WAITING_FOR,
} from '../../src/contract.js';
import { freePort } from '../../src/local/child-process.js';
import { startSandbox, type Sandbox } from '../../src/sandbox/sandbox.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import { startJobsWorker } from '../support/jobs-worker.js';
import { ProjectQueue } from '../support/project-queue.js';
import { startWorkerProcess, until, workerEnv, type WorkerProcess } from '../support/worker-process.js';
import { useForFile } from '../support/use.js';

const server = useForFile(connectOwnNamespace);
let sandbox: Sandbox;
let worker: WorkerProcess | undefined;
let port: number;

afterAll(async () => {
  await endWorker();
});
/** The worker of one test goes on in the next. */
async function endWorker(): Promise<void> {
  await worker?.kill();
  await sandbox?.close();
}

async function startWorker(): Promise<void> {
  sandbox = await startSandbox({ script: { activeMs: 500 } });
  port = await freePort();
  worker = startWorkerProcess({
    ...workerEnv(server, sandbox),
    METRICS_ADDRESS: `127.0.0.1:${port}`,
  });
  await worker.wrote('The worker runs');
}

function startJob(projectId: string, options: Partial<AgentJobInput> = {}) {
  return server.client.workflow.start(AGENT_JOB_WORKFLOW, {
    workflowId: `agent-job/${projectId}/metrics`,
    taskQueue: server.taskQueue,
    args: [{ projectId, prompt: 'Say hello', polling: { min: 1_000, max: 1_000 }, ...options }],
  });
}

type Series = Map<string, number>;

/** Each series by its name and those of its labels that are ours, in order. */
async function metrics(): Promise<Series> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const series: Series = new Map();
  for (const line of text.split('\n').filter((each) => each && !each.startsWith('#'))) {
    const [, name, labels = '', value] = /^(\w+)(?:\{(.*)\})? (\S+)/.exec(line)!;
    const known = labels
      .split(/,(?=\w+=)/)
      .filter((label) => !/^(namespace|task_?[qQ]ueue|workflow_?[tT]ype)=/.test(label));
    const key = [name, ...known.filter(Boolean).toSorted()].join(' ');
    if (series.has(key) && name!.startsWith('agent_jobs_')) throw new Error(`${key} is there twice:\n${text}`);
    series.set(key, Number(value));
  }
  return series;
}

async function metric(name: string, isRight: (value: number) => boolean): Promise<void> {
  const holds = async () => isRight((await metrics()).get(name) ?? NaN);
  await until(holds, `${name} to be right`, () => worker?.output() ?? '', 90_000);
}

describe('the metrics of a worker', () => {
  test('are all there before anything happens, the counters at 0: no first increase is missed', async () => {
    await startWorker();
    const atFirst = await metrics();
    for (const operation of ['create', 'message']) {
      for (const outcome of WRITE_OUTCOMES) {
        expect(atFirst.get(`agent_jobs_writes_total operation="${operation}" outcome="${outcome}"`)).toBe(0);
      }
    }
    for (const answer of ['2xx', '401', '403', '4xx', '429', '5xx', 'timeout', 'reset', 'notDelivered', 'malformed']) {
      expect(atFirst.get(`agent_jobs_upstream_requests_total class="${answer}" operation="create"`)).toBe(0);
    }
    for (const outcome of JOB_ENDS) {
      expect(atFirst.get(`agent_jobs_ended_total outcome="${outcome}"`)).toBe(0);
    }
    expect(atFirst.get('process_start_time_seconds')).toBeCloseTo(Date.now() / 1_000, -2);
    expect(atFirst.get('process_resident_memory_bytes')).toBeGreaterThan(10_000_000);
    expect([...atFirst.keys()].join('\n')).toMatch(/^agent_jobs_build_info node="v\d.*" version="\d/m);
    await metric('agent_jobs_cpu_seconds', (seconds) => seconds > 0 && !Number.isInteger(seconds));
    await metric('agent_jobs_needs_attention', (jobs) => jobs === 0);
    for (const phase of PHASES.filter((word) => word !== 'done')) {
      await metric(`agent_jobs_open phase="${phase}" version=""`, (jobs) => jobs === 0);
    }
    for (const reason of SHOWN_WAITING_FOR) {
      await metric(`agent_jobs_waiting for="${reason}"`, (jobs) => jobs === 0);
    }
    await metric('agent_jobs_last_count_timestamp_seconds', (at) => Math.abs(at - Date.now() / 1_000) < 120);
  });

  test('show what the upstream answered and took, how jobs ended, and how late an end was seen at most', async () => {
    if (!worker) await startWorker();
    for (const [projectId, status] of [
      ['refused', 401],
      ['forbidden', 403],
      ['rejected', 400],
    ] as const) {
      await sandbox.addFault({
        kind: 'status',
        operation: 'create',
        projectId,
        status,
        count: 100,
        body: { error: 'no' },
      });
    }
    const steps = [{ status: 'idle' }, { afterReads: 1, status: 'completed', prLink: true } as const];
    await sandbox.addScript({ projectId: 'good', script: { steps } });
    await startJob('good').then((job) => job.result());
    await startJob('rejected')
      .then((job) => job.result())
      .catch(() => {});
    const refused = await Promise.all([startJob('refused'), startJob('forbidden')]);
    await metric('agent_jobs_upstream_requests_total class="401" operation="create"', (n) => n >= 1);
    await metric('agent_jobs_upstream_requests_total class="403" operation="create"', (n) => n >= 1);
    await metric('agent_jobs_ended_total outcome="completed"', (n) => n === 1);
    await metric('agent_jobs_ended_total outcome="CreateRejected"', (n) => n >= 1);
    await metric('agent_jobs_upstream_request_duration_seconds_count operation="create"', (n) => n >= 3);
    await metric('agent_jobs_upstream_request_duration_seconds_count operation="get"', (n) => n >= 1);
    await metric('agent_jobs_unknown_status_polls_total project="good"', (n) => n >= 1);
    await metric('agent_jobs_end_seen_late_seconds_count', (n) => n === 1);
    await metric('agent_jobs_end_seen_late_seconds_bucket le="300"', (n) => n === 1);
    await metric('agent_jobs_polls_held', (n) => n >= 0);
    expect((await metrics()).get('agent_jobs_ended_total outcome="lost"')).toBe(0);
    await Promise.all(refused.map((job) => job.terminate().catch(() => {})));
  });

  test('count jobs by phase, by wait and by age without an id', async () => {
    await endWorker();
    sandbox = await startSandbox({ script: { activeMs: 3_600_000 } });
    port = await freePort();
    await sandbox.addFault({ kind: 'status', operation: 'create', projectId: 'in-doubt', status: 500 });
    const busy = { kind: 'status', operation: 'create', projectId: 'throttled', status: 429 } as const;
    await sandbox.addFault({ ...busy, retryAfter: 3_600, count: 100 });
    const endFirst = await startJobsWorker(server, server.taskQueue, sandbox);
    const jobs = await Promise.all(['in-doubt', 'throttled', 'watched'].map((projectId) => startJob(projectId)));
    // All three know how their creates ended: an end before would leave them in doubt.
    const states = async () => {
      const all = await Promise.all(jobs.map((job) => job.query(jobStateQuery)));
      return all.map(({ phase, waiting }) => `${phase} ${waiting?.for}`);
    };
    await expect.poll(states).toEqual(['needsAttention person', 'creating rateLimit', 'watching poll']);
    const queue = new ProjectQueue(server.client, server.taskQueue, 'budgeted');
    await queue.report({ requests: 4, perHour: 20, perDay: 5 });
    await endFirst();
    worker = startWorkerProcess({ ...workerEnv(server, sandbox), METRICS_ADDRESS: `127.0.0.1:${port}` });
    await worker.wrote('The worker runs');
    await metric('agent_jobs_open phase="needsAttention" version=""', (n) => n === 1);
    await metric('agent_jobs_needs_attention', (n) => n === 1);
    await metric('agent_jobs_open phase="watching" version=""', (n) => n === 1);
    await metric('agent_jobs_open phase="creating" version=""', (n) => n === 1);
    await metric('agent_jobs_waiting for="person"', (n) => n === 1);
    await metric('agent_jobs_waiting for="rateLimit"', (n) => n === 1);
    await metric('agent_jobs_waiting for="key"', (n) => n === 0);
    // The queue of an earlier test remembers its 429 for an hour.
    await metric('agent_jobs_request_queues', (n) => n >= 1);
    for (const [per, limit] of [
      ['hour', 20],
      ['day', 5],
    ] as const) {
      const labels = `operation="create" per="${per}" project="budgeted"`;
      await metric(`agent_jobs_budget_used ${labels}`, (n) => n === 4);
      await metric(`agent_jobs_budget_limit ${labels}`, (n) => n === limit);
    }
    await metric('agent_jobs_ready', (n) => n === 1);
    await metric('agent_jobs_uncreated older_than="10m"', (n) => n === 0);
    expect((await metrics()).get('agent_jobs_open phase="sending" version=""')).toBe(0);
    await jobs[0]!.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'abandon' }] });
    for (const job of jobs) await job.terminate().catch(() => {});
  });
});
