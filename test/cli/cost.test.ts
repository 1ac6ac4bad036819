import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { requestQueueId } from '../../src/contract.js';
import { type JobHandle } from '../../src/starter.js';
import { runMixedJobs } from '../../bench/mixed-jobs.js';
import { startCountedServer, totalOf, type Actions, type CountedServer } from './counted-server.js';
import { envOf, jsonLines, type CliRun } from './run-cli.js';
import { runInProcess } from './run-in-process.js';

const MOST_MS = 300_000; // a busy machine starts a process slowly
const POLLING = { min: 1_000, max: 1_000 };

let counted: CountedServer;
let { server, sandbox, jobs } = {} as CountedServer;

beforeAll(async () => {
  counted = await startCountedServer();
  ({ server, sandbox, jobs } = counted);
}, MOST_MS);
afterAll(() => counted.close());

async function settledActions(): Promise<number> {
  return totalOf(await counted.settledActions());
}

async function costOf(job: JobHandle): Promise<Record<string, unknown>> {
  const { stdout, stderr } = await runInProcess(['cost', job.workflowId, '--json'], { env: envOf(server) });
  expect(stderr).toBe('');
  return jsonLines(stdout)[0]!;
}

function start(activeMs: number, more: object = {}): Promise<JobHandle> {
  void sandbox.setScript({ activeMs, followUp: 'ignore' });
  return jobs.start({ key: randomUUID(), projectId: 'p1', prompt: 'Fix it', polling: POLLING, settle: 0, ...more });
}

test.each([
  ['of a few reads', { activeMs: 3_000, mayDiffer: 0, steer: async () => {} }],
  [
    'with a follow-up in the middle of a wait',
    {
      activeMs: 10_000,
      // The reads of a poll that a follow-up cuts short are an estimate of the job's own.
      mayDiffer: 1,
      steer: async (job: JobHandle) => {
        await pause(1_500);
        await job.sendFollowUp('And the tests');
      },
    },
  ],
])(
  'the estimate for a job %s is what the server counts as billable actions',
  async (_, { activeMs, mayDiffer, steer }) => {
    const before = await settledActions();
    const job = await start(activeMs);
    await steer(job);
    const { polls } = await job.result();
    const counted = (await settledActions()) - before;
    const cost = await costOf(job);
    const { historyLength } = await server.client.workflow.getHandle(job.workflowId).describe();
    expect(cost).toMatchObject({ runs: 1, historyEvents: historyLength, reads: polls });
    expect(Math.abs((cost['billableActions'] as number) - counted)).toBeLessThanOrEqual(mayDiffer);
  },
  MOST_MS,
);

test(
  'the estimate for a job that was throttled and waited for its turn is what the server counts',
  async () => {
    const projectId = `busy ${randomUUID()}`;
    const fault = { kind: 'status', status: 429, retryAfter: 2, operation: 'create', projectId } as const;
    await sandbox.addFault({ ...fault, count: 1 });
    const before = await settledActions();
    const job = await start(1_000, { projectId });
    await job.result();
    const counted = (await settledActions()) - before;
    const cost = (await costOf(job)) as { billableActions: number; actions: Record<string, number> };
    // A try that is refused and joins, a turn, and its report.
    expect(cost.actions).toMatchObject({
      activities: 3,
      heartbeats: 3,
      signals: 1,
      timers: 1,
      queueMessages: 2,
      turnReports: 1,
    });
    const { events } = await server.client.workflow
      .getHandle(requestQueueId({ operation: 'create', projectId }))
      .fetchHistory();
    // The queue's own; the join is counted as one, whether it starts the queue or not.
    const timers = (events ?? []).filter((event) => event.timerStartedEventAttributes);
    expect(cost.billableActions + timers.length).toBe(counted);
  },
  MOST_MS,
);

test(
  'the estimate for a job that is cancelled while it waits counts that it leaves the queue',
  async () => {
    const projectId = `busy ${randomUUID()}`;
    const fault = { kind: 'status', status: 429, retryAfter: 3_600, operation: 'create', projectId } as const;
    await sandbox.addFault({ ...fault, count: 1 });
    const before = await settledActions();
    const job = await start(1_000, { projectId });
    const client = server.client.workflow;
    const eventsOf = async (id: string) => (await client.getHandle(id).fetchHistory()).events ?? [];
    const waits = async () => (await eventsOf(job.workflowId)).some((event) => event.timerStartedEventAttributes);
    await expect.poll(waits, { timeout: 120_000 }).toBe(true);
    await job.cancel();
    await job.result().catch(() => {});
    const counted = (await settledActions()) - before;
    const cost = (await costOf(job)) as { billableActions: number; actions: Record<string, number> };
    expect(cost.actions).toMatchObject({
      activities: 1,
      heartbeats: 2,
      timers: 1,
      signals: 0,
      queueMessages: 3,
      turnReports: 0,
    });
    const { events } = await client.getHandle(requestQueueId({ operation: 'create', projectId })).fetchHistory();
    // The queue's own; the join is counted as one, whether it starts the queue or not.
    const timers = (events ?? []).filter((event) => event.timerStartedEventAttributes);
    expect(cost.billableActions + timers.length).toBe(counted);
  },
  MOST_MS,
);

test(
  'what a job has cost includes its runs before a follow-up to its end; of a batch and a project it is one job',
  async () => {
    const [projectId, batch] = [randomUUID(), randomUUID()];
    const before = await settledActions();
    const job = await start(3_000, { projectId, batch });
    const { polls } = await job.result();
    const first = (await costOf(job)) as { historyEvents: number; billableActions: number };
    await job.sendFollowUp('And the tests');
    const again = await job.result();
    const counted = (await settledActions()) - before;
    const { historyLength } = await server.client.workflow.getHandle(job.workflowId).describe();
    const cost = await costOf(job);
    expect(cost).toMatchObject({ runs: 2, historyEvents: first.historyEvents + historyLength });
    expect(cost).toMatchObject({ reads: polls + again.polls });
    // As above: the follow-up may cut a wait short.
    expect(Math.abs((cost['billableActions'] as number) - counted)).toBeLessThanOrEqual(1);
    const linesOf = async (...args: string[]) => {
      const { stdout } = await runInProcess(['cost', ...args, '--json'], { env: envOf(server) });
      return jsonLines(stdout);
    };
    await expect.poll(() => linesOf('--batch', batch), { timeout: 120_000 }).toMatchObject([cost]);
    await expect.poll(() => linesOf('--project', projectId), { timeout: 120_000 }).toMatchObject([cost]);
    const { stdout } = await runInProcess(['cost', '--project', projectId], { env: envOf(server) });
    expect(stdout).toMatch(/\nagentJob +1 +2 /);
    expect(stdout).toMatch(/\nstarts +2 +2\.0\n/);
  },
  MOST_MS,
);

test(
  'a job that still runs shows what it has cost so far, for people too',
  async () => {
    const job = await start(3_600_000);
    await expect.poll(async () => (await costOf(job))['reads'], { timeout: 120_000 }).toBeGreaterThan(0);
    const cost = (await costOf(job)) as { reads: number; actions: Record<string, number> };
    expect(cost.reads).toBeGreaterThan(0);
    expect(cost.actions).toMatchObject({ starts: 1, activities: 2, heartbeats: 1, signals: 0 });
    const { stdout } = await runInProcess(['cost', job.workflowId], { env: envOf(server) });
    expect(stdout).toMatch(/^Workflow +agent-job\/[^]*\nagentJob +1 +1 [^]*\nstarts +1 +1\.0\n/);
    expect(stdout).toContain('\n(estimated by https:');
    await job.cancel();
  },
  MOST_MS,
);

test(
  'a job that is not there is told, and exits 1',
  async () => {
    const { code, stderr } = await runInProcess(['cost', 'agent-job/p/nowhere'], { env: envOf(server) });
    expect(stderr).toContain('no such workflow');
    expect(code).toBe(1);
  },
  MOST_MS,
);

function cli(args: string[]): Promise<CliRun> {
  return runInProcess(['cost', ...args], { env: envOf(server) });
}

let projects: string[];

test(
  'the cost of the projects of 40 mixed jobs is within 2 % of what the server counts',
  async () => {
    await sandbox.setScript({});
    const before = await counted.settledActions();
    projects = [`one ${randomUUID()}`, `two "${randomUUID()}"`];
    const work = { jobs, control: sandbox, projects, tag: randomUUID(), n: 40, longMs: 12_000 };
    const { workflowIds, projects: used } = await runMixedJobs(work);
    const after = await counted.settledActions();
    const runs = await Promise.all(used.map((project) => cli(['--project', project, '--json'])));
    const lines = runs.flatMap(({ stdout }) => jsonLines(stdout) as unknown as Line[]);
    const ids = lines.filter(({ workflowType }) => workflowType === 'agentJob').map(({ workflowId }) => workflowId);
    expect(ids.toSorted()).toEqual(workflowIds.toSorted());
    const byServer = totalOf(after) - totalOf(before);
    const estimated = lines.reduce((sum, { billableActions }) => sum + billableActions, 0);
    expect(Math.abs(estimated - byServer) / byServer).toBeLessThanOrEqual(0.02);
    const increase = (kind: string) => (after[kind] ?? 0) - (before[kind] ?? 0);
    // What each event of a history stands for is no estimate. A task that the server has done again may count twice.
    const sums = sumsOf(lines);
    for (const [kind, counted] of Object.entries({
      starts: 'grpc_StartWorkflowExecution',
      activities: 'command_ScheduleActivityTask',
      timers: 'command_StartTimer',
      updates: 'message_UpdateWorkflowExecution_Acceptance',
      searchAttributeUpserts: 'command_UpsertWorkflowSearchAttributes',
      memoUpserts: 'command_ModifyWorkflowProperties',
    })) {
      expect([kind, Math.abs(increase(counted) - (sums[kind] ?? 0)) <= 1]).toEqual([kind, true]);
    }
  },
  MOST_MS,
);

test(
  'for people it is told by type of workflow and by kind of action, in all and per job',
  async () => {
    const [project = ''] = projects;
    const config = { workflowExecutionRetentionTtl: { seconds: 86_400 as never } };
    await server.client.workflowService.updateNamespace({ namespace: server.namespace, config });
    const { stdout, stderr, code } = await cli(['--project', project, '--days', '30']);
    expect({ stderr: stderr.replace(/\d+ workflows? read\n/g, ''), code }).toEqual({ stderr: '', code: 0 });
    expect(stdout).toMatch(/^Project +one \S+\nStarted since +\d{4}-\S+Z\n/);
    expect(stdout).toMatch(/\nWORKFLOW +COUNT +RUNS +EVENTS +BYTES +READS +ACTIONS +ACTIONS EACH\nagentJob +19 +19 /);
    expect(stdout).toMatch(/\nBILLABLE ACTIONS +ALL +PER JOB\nstarts +19 +1\.0\n/);
    expect(stdout).toContain('(closed workflows are kept for 1 day: older ones are gone)');
  },
  MOST_MS,
);

test(
  'the cost of a recurring job is that of its run and its job; the Schedule adds two, and the trigger one',
  async () => {
    await sandbox.setScript({});
    const projectId = `again ${randomUUID()}`;
    const handle = await jobs.schedule({ projectId, name: 'nightly', prompt: 'Tidy up', every: '1 day', paused: true });
    const before = await counted.settledActions();
    await handle.trigger();
    await expect
      .poll(async () => (await handle.lastRuns(1))[0]?.fate, { timeout: 120_000, interval: 2_000 })
      .toBe('ended');
    const after = await counted.settledActions();
    const lines = jsonLines((await cli(['--project', projectId, '--json'])).stdout) as unknown as Line[];
    const types = lines.map(({ workflowType }) => workflowType);
    expect(types.toSorted()).toEqual(['agentJob', 'recurringJob']);
    const estimated = lines.reduce((sum, { billableActions }) => sum + billableActions, 0);
    // A marker and a memo of the Schedule, and the request that triggered it.
    expect(totalOf(after) - totalOf(before) - estimated).toBe(3);
  },
  MOST_MS,
);

test(
  'a project of which nothing was started is an error, for its id may be mistyped',
  async () => {
    const { code, stdout, stderr } = await cli(['--project', 'nobody "here"', '--days', '1']);
    expect(stderr).toContain('nothing of the project "nobody \\"here\\"" was started in the last 1 day; check the id');
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  },
  MOST_MS,
);

test.each([
  [['--project', 'p', '--days', '0'], '--days must be a whole number of days, 1 to 3,650'],
  [['--project', 'p', '--days', '1.5'], '--days must be a whole number of days'],
  [['--project', '..'], '--project must not be'],
  [['--project', 'p', '--batch', 'b'], 'give a workflow id or --batch, not both'],
  [['agent-job/p/k', '--project', 'p', '--days', '2'], '--days goes with --project alone'],
  [['--batch', 'b', '--days', '2'], '--days goes with --project alone'],
  [[], 'name a job by its workflow id, or jobs with --batch'],
])('cost %j says what is wrong, without a server', async (args, text) => {
  const { code, stderr } = await runInProcess(['cost', ...args], { env: { TEMPORAL_ADDRESS: '127.0.0.1:1' } });
  expect(stderr).toContain(text);
  expect(code).toBe(2);
});

interface Line {
  workflowId: string;
  workflowType: string;
  billableActions: number;
  historyEvents: number;
  actions: Actions;
}

function sumsOf(lines: Line[]): Actions {
  const sums: Actions = {};
  for (const { actions } of lines) {
    for (const [kind, count] of Object.entries(actions)) sums[kind] = (sums[kind] ?? 0) + count;
  }
  return sums;
}
