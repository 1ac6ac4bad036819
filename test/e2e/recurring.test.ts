import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { AgentJobs, type RecurringRunSummary } from '../../src/starter.js';
import { useSystem } from './system.js';

const system = useSystem({ script: { activeMs: 3_600_000 } });

test(
  'a worker that is killed while one job runs and a time waits costs time only: each time has one job, in order',
  async () => {
    const { client, taskQueue } = system.server;
    const jobs = new AgentJobs({ client, taskQueue });
    const name = `nightly-${randomUUID()}`;
    const first = system.startWorker();
    await first.wrote('The worker runs');
    const handle = await jobs.schedule({
      ...{ projectId: 'acme', name, prompt: `{time} ${name}`, every: '1 hour', overlap: 'queue', paused: true },
      ...{ polling: { min: 1_000, max: 1_000 }, settle: 0 },
    });
    const runsOf = () => handle.lastRuns(10);
    const fatesOf = async () => (await runsOf()).map(({ fate }: RecurringRunSummary) => fate).sort();
    const runHours = (from: number, to: number) =>
      client.schedule.getHandle(handle.scheduleId).backfill({
        start: new Date(Date.UTC(2026, 2, 10, from) - 1_000),
        end: new Date(Date.UTC(2026, 2, 10, to)),
      });
    await runHours(1, 1);
    await expect.poll(fatesOf).toEqual(['running']);
    await runHours(2, 2);
    const [{ workflowId }] = (await runsOf()) as [RecurringRunSummary];
    await expect.poll(async () => (await jobs.handle(workflowId).state()).phase).toBe('watching');
    await first.kill();
    const [active] = await system.sandbox.creates({ projectId: 'acme', promptIncludes: name });
    await system.sandbox.setJob({ id: active!.id, status: 'completed' });
    await system.sandbox.setScript({ activeMs: 1_000 });
    // A time while nobody is there to run it: one waits already.
    await runHours(3, 3);
    await expect.poll(async () => (await handle.describe()).skippedRuns).toBe(1);
    await system.haveWorker();
    await expect.poll(fatesOf, { timeout: 150_000, interval: 1_000 }).toEqual(['ended', 'ended']);
    const creates = await system.sandbox.creates({ projectId: 'acme', promptIncludes: name });
    expect(creates.map(({ prompt }) => prompt.slice(0, 5))).toEqual(['01:00', '02:00']);
    await handle.remove();
  },
  4 * 60_000,
);
