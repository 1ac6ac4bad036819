/** One short life of `recurringJob` per path, as `scenarios.ts` has them of `agentJob`. */
import type { Client } from '@temporalio/client';
import type { RecurringJobInput } from '../../src/contract.js';
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
  { input }: RecurringScenario,
): Promise<RecurringLife> {
  upstream.show = () => ({ status: 'active' });
  const job = { projectId: 'p1', name, prompt: 'Review {date}', polling: { min: 1_000, max: 1_000 }, settle: 0 };
  const handle = await new AgentJobs({ client, taskQueue }).schedule({
    ...job,
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
  await client.schedule.getHandle(handle.scheduleId).backfill({ start, end });
}

async function reach({ handle }: RecurringLife, fate: RecurringRunSummary['fate']): Promise<void> {
  await until(async () => {
    for await (const run of handle.runs()) if (run.fate === fate) return true;
    return false;
  });
}

const complete = ({ upstream }: RecurringLife) => (upstream.show = () => ({ status: 'completed' }));
const runOf = ({ client, handle }: RecurringLife, hour: string) =>
  client.workflow.getHandle(`${handle.scheduleId}-2026-03-10T${hour}:00:00Z`);

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
  'recurring-cancelled': {
    act: async (life) => {
      await runHour(life, 1);
      await reach(life, 'running');
      await runOf(life, '01').cancel();
      await reach(life, 'canceled');
    },
  },
  'recurring-invalid-input': {
    input: { prompt: 'of {yesterday}' },
    act: async (life) => {
      await runHour(life, 1);
      await reach(life, 'failed');
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
