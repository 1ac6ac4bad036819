import { expect, test } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import { failedTasks } from '../support/failed-tasks.js';
import { until } from '../support/worker-process.js';
import { useSystem } from './system.js';

const system = useSystem();

test('a worker killed in a poll of one job and between two of another costs each no more than a delay', async () => {
  const { sandbox, server } = system;
  const { client, taskQueue } = server;
  // Of this run alone: a queue of requests outlives the test that left it closed.
  const projects = { held: `held-${taskQueue}`, hanging: `hanging-${taskQueue}` };
  await sandbox.addScript({ projectId: projects.held, script: { activeMs: 3_600_000 } });
  const jobs = new AgentJobs({ client, taskQueue });
  const start = (projectId: string) =>
    jobs.start({ key: taskQueue, projectId, prompt: 'Say hello', polling: { min: 2_000, max: 2_000 } });
  const reads = async (projectId: string) =>
    (await sandbox.requests()).filter((request) => request.projectId === projectId && request.operation === 'get');

  const first = system.startWorker();
  const held = await start(projects.held);
  await until(async () => (await reads(projects.held)).length >= 2, 'a second poll', first.output);
  await sandbox.addFault({ kind: 'hang', operation: 'get', projectId: projects.hanging });
  const hanging = await start(projects.hanging);
  await until(async () => (await reads(projects.hanging)).length === 1, 'a poll to hang', first.output);
  await system.haveWorker();
  await first.kill();
  const [job] = await sandbox.creates({ projectId: projects.held });
  await sandbox.setJob({ id: job!.id, status: 'completed', prLink: true });

  const pairs = [
    [projects.held, held],
    [projects.hanging, hanging],
  ] as const;
  for (const [projectId, { workflowId }] of pairs) {
    const handle = client.workflow.getHandle(workflowId);
    expect(await handle.result()).toMatchObject({ outcome: 'completed', followUps: [] });
    expect(await sandbox.creates({ projectId })).toHaveLength(1);
    const events = (await handle.fetchHistory()).events!;
    const attempts = events.flatMap(({ activityTaskStartedEventAttributes: started }) => started?.attempt ?? []);
    // The create, and the one batch of polls: the server gave it to the second worker.
    expect([projectId, attempts]).toEqual([projectId, [1, 2]]);
    expect(failedTasks(events)).toEqual([]);
    expect(events.filter((event) => event.activityTaskFailedEventAttributes)).toEqual([]);
  }
});
