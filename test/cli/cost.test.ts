import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { requestQueueId } from '../../src/contract.js';
import { type JobHandle } from '../../src/starter.js';
import { startCountedServer, totalOf, type CountedServer } from './counted-server.js';
import { envOf, jsonLines } from './run-cli.js';
import { runInProcess } from './run-in-process.js';

const MOST_MS = 240_000; // a busy machine starts a process slowly
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
    await expect.poll(waits, { timeout: 60_000 }).toBe(true);
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
  'a further poll costs at most 1.1 billable actions, as the server counts them',
  async () => {
    const jobs: { polls: number; actions: number }[] = [];
    for (const activeMs of [1_000, 16_000]) {
      const before = await settledActions();
      const { polls } = await (await start(activeMs)).result();
      jobs.push({ polls, actions: (await settledActions()) - before });
    }
    const [short, long] = jobs as [(typeof jobs)[0], (typeof jobs)[0]];
    expect(long.polls).toBeGreaterThan(short.polls + 5);
    expect((long.actions - short.actions) / (long.polls - short.polls)).toBeLessThanOrEqual(1.1);
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
    await expect.poll(() => linesOf('--batch', batch), { timeout: 60_000 }).toMatchObject([cost]);
    await expect.poll(() => linesOf('--project', projectId), { timeout: 60_000 }).toMatchObject([cost]);
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
    await expect.poll(async () => (await costOf(job))['reads'], { timeout: 60_000 }).toBeGreaterThan(0);
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
