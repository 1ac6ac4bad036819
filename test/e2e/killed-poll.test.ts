import { expect, test } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import { failedTasks } from '../support/failed-tasks.js';
import { until } from '../support/worker-process.js';
import { useSystem } from './system.js';

const system = useSystem();

test('a worker killed in a poll, between two, or while an end stands costs each job only a delay', async () => {
  const { sandbox, server } = system;
  const { client, taskQueue } = server;
  // Of this run alone: a queue of requests outlives the test that left it closed.
  const projects = { held: `held-${taskQueue}`, hanging: `hanging-${taskQueue}`, ending: `ending-${taskQueue}` };
  await sandbox.addScript({ projectId: projects.held, script: { activeMs: 3_600_000 } });
  const [completed, late] = [{ status: 'completed' }, { status: 'completed', prLink: true as const, afterMs: 60_000 }];
  await sandbox.addScript({ projectId: projects.ending, script: { steps: [completed, late] } });
  const jobs = new AgentJobs({ client, taskQueue });
  const start = (projectId: string) =>
    jobs.start({
      key: taskQueue,
      projectId,
      prompt: 'Say hello',
      polling: { min: 2_000, max: 2_000 },
      settle: '5 minutes',
    });
  const polls = async (projectId: string) =>
    (await sandbox.requests()).filter((request) => request.projectId === projectId && request.operation === 'get');

  const first = system.startWorker();
  const held = await start(projects.held);
  await until(async () => (await polls(projects.held)).length >= 2, 'a second poll', first.output);
  await sandbox.addFault({ kind: 'hang', operation: 'get', projectId: projects.hanging });
  const hanging = await start(projects.hanging);
  await until(async () => (await polls(projects.hanging)).length >= 1, 'a poll to hang', first.output);
  const ending = await start(projects.ending);
  const candidate = async () => {
    const { waiting } = await ending.state();
    return waiting?.for === 'settle' ? waiting.since : null;
  };
  await until(async () => (await candidate()) !== null, 'an end to stand', first.output);
  const since = await candidate();
  await system.haveWorker();
  await first.kill();
  expect(await candidate()).toBe(since);
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
  expect(await ending.result()).toMatchObject({ outcome: 'completed', prLinks: [expect.stringContaining('/pull/')] });
});
