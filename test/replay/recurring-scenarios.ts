/** One short life of `recurringJob` and its lock per path, as `scenarios.ts` has them of `agentJob`. */
import type { Client } from '@temporalio/client';
import { recurringJobLockId, type RecurringJobInput } from '../../src/contract.js';
import { AgentJobs, type JobScheduleHandle, type RecurringRunSummary } from '../../src/starter.js';
import { until } from '../export/export.js';
import type { ScriptedUpstream } from '../support/scripted-upstream.js';

/** A recurring job of every hour, paused, whose jobs run until they are told to end. */
export interface RecurringLife {
  client: Client;
  upstream: ScriptedUpstream;
  handle: JobScheduleHandle;
}

export interface RecurringScenario {
  settings?: { overlap: 'queue'; queueFor?: string };
  /** Replaces what the Schedule gives its runs. */
  input?: Partial<RecurringJobInput>;
  act: (life: RecurringLife) => Promise<void>;
}

/** Makes the recurring job of a scenario. */
export async function startLife(
  client: Client,
  taskQueue: string,
  upstream: ScriptedUpstream,
  name: string,
  { settings, input }: RecurringScenario,
): Promise<RecurringLife> {
  upstream.show = () => ({ status: 'active' });
  const job = { projectId: 'p1', name, prompt: 'Review {date}', polling: { min: 1_000, max: 1_000 }, settle: 0 };
  const handle = await new AgentJobs({ client, taskQueue }).schedule({
    ...job,
    ...settings,
    every: '1 hour',
    paused: true,
  });
  if (input !== undefined) {
    await client.schedule.getHandle(handle.scheduleId).update(({ action, ...others }) => ({
      ...others,
      action: { ...action, args: [{ ...(action.args?.[0] as RecurringJobInput), ...input }] },
    }));
  }
  return { client, upstream, handle };
}

async function runHour({ client, handle }: RecurringLife, hour: number): Promise<void> {
  const end = new Date(Date.UTC(2026, 2, 10, hour));
  const start = new Date(end.getTime() - 1_000);
  await client.schedule.getHandle(handle.scheduleId).backfill({ start, end, overlap: 'ALLOW_ALL' });
}

async function reach({ handle }: RecurringLife, fate: RecurringRunSummary['fate'], count = 1): Promise<void> {
  await until(async () => {
    let seen = 0;
    for await (const run of handle.runs()) seen += run.fate === fate ? 1 : 0;
    return seen >= count;
  });
}

const complete = ({ upstream }: RecurringLife) => (upstream.show = () => ({ status: 'completed' }));
const runOf = ({ client, handle }: RecurringLife, hour: string) =>
  client.workflow.getHandle(`${handle.scheduleId}-2026-03-10T${hour}:00:00Z`);

/** The first hour's job runs and the second hour waits. */
async function queueTwo(life: RecurringLife): Promise<void> {
  await runHour(life, 1);
  await reach(life, 'running');
  await runHour(life, 2);
  await reach(life, 'queued');
}

/** The second hour was told of its turn, and lets the lock close. */
async function betweenHolders(life: RecurringLife): Promise<void> {
  await queueTwo(life);
  complete(life);
  await until(async () => {
    const { events } = await runOf(life, '02').fetchHistory();
    return (events ?? []).filter(({ timerStartedEventAttributes: timer }) => timer != null).length === 2;
  });
}

export const RECURRING_SCENARIOS: Record<string, RecurringScenario> = {
  'recurring-ended-and-exists': {
    act: async (life) => {
      complete(life);
      await runHour(life, 1);
      await reach(life, 'ended');
      await runHour(life, 1);
      await reach(life, 'exists');
    },
  },
  'recurring-skipped': {
    act: async (life) => {
      await runHour(life, 1);
      await reach(life, 'running');
      await runHour(life, 2);
      await reach(life, 'skipped');
      complete(life);
    },
  },
  'recurring-queued': {
    settings: { overlap: 'queue' },
    act: async (life) => {
      await queueTwo(life);
      complete(life);
      await reach(life, 'ended', 2);
    },
  },
  'recurring-waited-too-long': {
    settings: { overlap: 'queue', queueFor: '1 second' },
    act: async (life) => {
      await queueTwo(life);
      await reach(life, 'skipped');
      complete(life);
    },
  },
  'recurring-removed': {
    settings: { overlap: 'queue' },
    act: async (life) => {
      await queueTwo(life);
      await life.handle.remove();
      await reach(life, 'skipped');
      complete(life);
    },
  },
  // The history 'recurring-removed-unheeded' is of the release before, whose run started its job all the same.
  'recurring-removed-between-holders': {
    settings: { overlap: 'queue' },
    act: async (life) => {
      await betweenHolders(life);
      await life.handle.remove();
      await reach(life, 'skipped');
    },
  },
  'recurring-cancelled': {
    settings: { overlap: 'queue' },
    act: async (life) => {
      await queueTwo(life);
      await runOf(life, '02').cancel();
      await runOf(life, '01').cancel();
      await reach(life, 'canceled', 2);
    },
  },
  'recurring-invalid-input': {
    input: { prompt: 'of {yesterday}' },
    act: async (life) => {
      await runHour(life, 1);
      await reach(life, 'failed');
    },
  },
  'recurring-lock-continues-as-new': {
    settings: { overlap: 'queue' },
    act: async (life) => {
      await queueTwo(life);
      const { projectId, name } = life.handle;
      const lock = life.client.workflow.getHandle(recurringJobLockId(projectId, name));
      const { runId } = await lock.describe();
      await until(async () => {
        await lock.signal('awaitLock', { waiting: [] });
        return (await lock.describe()).runId !== runId;
      });
      complete(life);
      await reach(life, 'ended', 2);
    },
  },
};

/** The runs of a life, in the order of their start. */
export async function runsOfLife({ client, handle }: RecurringLife): Promise<{ workflowId: string; runId: string }[]> {
  const runs: { workflowId: string; runId: string; startTime: Date }[] = [];
  const query = `TemporalScheduledById = '${handle.scheduleId}'`;
  for await (const { workflowId, runId, startTime } of client.workflow.list({ query })) {
    await client.workflow
      .getHandle(workflowId, runId)
      .result()
      .catch(() => {});
    runs.push({ workflowId, runId, startTime });
  }
  return runs.sort((a, b) => a.startTime.getTime() - b.startTime.getTime());
}
