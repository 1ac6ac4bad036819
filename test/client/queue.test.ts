import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { joinQueueSignal, requestQueueId, type Priority, type QueueName } from '../../src/contract.js';
import { AgentJobs, type QueueReport } from '../../src/starter.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import { startScriptedServer, type ScriptedServer } from './scripted-server.js';
import { useForFile } from '../support/use.js';

const server = useForFile(startScriptedServer);

/** Joins a queue as an activity does. */
function join(
  name: QueueName,
  workflowId: string,
  priority: Priority = 3,
  { client, taskQueue }: Pick<ScriptedServer, 'client' | 'taskQueue'> = server,
) {
  return client.workflow.signalWithStart('requestQueue', {
    taskQueue,
    workflowId: requestQueueId(name),
    args: [name],
    signal: joinQueueSignal,
    signalArgs: [{ workflowId, priority, askedAt: Date.parse('2026-01-01T11:00:00.000Z') }],
  });
}

async function queuesOf(projectId?: string, { jobs } = server): Promise<QueueReport[]> {
  const found: QueueReport[] = [];
  for await (const queue of jobs.queues({ projectId })) found.push(queue);
  return found;
}

test('a project without a queue has none, and one with a queue shows who waits', async () => {
  const projectId = `shop ${randomUUID()}/1`;
  expect(await queuesOf(projectId)).toEqual([]);
  const queue = await join({ operation: 'message', projectId }, 'job-a', 1);
  await join({ operation: 'message', projectId }, 'job-b');
  const [found, ...more] = await queuesOf(projectId);
  expect(more).toEqual([]);
  expect(found).toMatchObject({ workflowId: queue.workflowId, operation: 'message', projectId });
  expect(found?.state).toMatchObject({ perHour: 60, waitingCount: 2 });
  expect(found?.state?.waiting.map(({ workflowId, position }) => [workflowId, position])).toEqual([
    ['job-a', 1],
    ['job-b', 2],
  ]);
  await queue.terminate();
  expect(await queuesOf(projectId)).toEqual([]);
});

test('all queues are found, the one of the exports too', async () => {
  const names: QueueName[] = [
    { operation: 'create', projectId: `p-${randomUUID()}` },
    { operation: 'message', projectId: `p/${randomUUID()} ü` },
    { operation: 'visitors', projectId: null },
  ];
  // There is one queue of all exports: on the shared server it is everybody's.
  const own = await connectOwnNamespace();
  const jobs = new AgentJobs({ client: own.client, taskQueue: own.taskQueue });
  // No worker serves them: they would ask for their waiters, who do not exist, and end.
  await Promise.all(names.map((name) => join(name, 'somebody', 3, own)));
  // Visibility lags behind.
  await expect
    .poll(async () =>
      (await queuesOf(undefined, { ...server, jobs })).map(({ operation, projectId }) => ({ operation, projectId })),
    )
    .toEqual(expect.arrayContaining(names));
  await own.close();
});
