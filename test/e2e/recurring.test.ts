import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { recurringJobLockId } from '../../src/contract.js';
import { AgentJobs, type RecurringRunSummary } from '../../src/starter.js';
import { useSystem } from './system.js';

const system = useSystem({ script: { activeMs: 3_600_000 } });

test(
  'a worker that is killed while one job runs and two times wait costs time only: each time has one job, in order',
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
        overlap: 'ALLOW_ALL',
      });
    await runHours(1, 1);
    await expect.poll(fatesOf).toEqual(['running']);
    await runHours(2, 3);
    await expect.poll(fatesOf).toEqual(['queued', 'queued', 'running']);
    // The order is that of the line: both stand in it.
    const lock = client.workflow.getHandle(recurringJobLockId('acme', name));
    const asked = async () =>
      (await lock.fetchHistory()).events?.filter((event) => event.workflowExecutionSignaledEventAttributes).length;
    await expect.poll(asked).toBeGreaterThanOrEqual(2);
    const { workflowId } = (await runsOf()).find(({ fate }) => fate === 'running')!;
    await expect.poll(async () => (await jobs.handle(workflowId).state()).phase).toBe('watching');
    await first.kill();
    const [active] = await system.sandbox.creates({ projectId: 'acme', promptIncludes: name });
    await system.sandbox.setJob({ id: active!.id, status: 'completed' });
    await system.sandbox.setScript({ activeMs: 1_000 });
    // The same times once more, while nobody is there to run them.
    await runHours(1, 3);
    system.startWorker();
    await expect.poll(fatesOf, { timeout: 150_000 }).toEqual(['ended', 'ended', 'ended']);
    const creates = await system.sandbox.creates({ projectId: 'acme', promptIncludes: name });
    expect(creates.map(({ prompt }) => prompt.slice(0, 5))).toEqual(['01:00', '02:00', '03:00']);
    await handle.remove();
  },
  4 * 60_000,
);
