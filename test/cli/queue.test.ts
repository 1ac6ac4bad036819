import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { joinQueueSignal, requestQueueId, type QueueName } from '../../src/contract.js';
import { startScriptedServer } from '../client/scripted-server.js';
import { envOf, jsonLines } from './run-cli.js';
import { runInProcess } from './run-in-process.js';
import { useForFile } from '../support/use.js';

const server = useForFile(startScriptedServer);

async function joined(name: QueueName, workflowIds: string[]) {
  for (const workflowId of workflowIds)
    await server.client.workflow.signalWithStart('requestQueue', {
      taskQueue: server.taskQueue,
      workflowId: requestQueueId(name),
      args: [name],
      signal: joinQueueSignal,
      signalArgs: [{ workflowId, priority: workflowId === 'last' ? 5 : 2, askedAt: Date.now() - 180_000 }],
    });
  return server.client.workflow.getHandle(requestQueueId(name));
}

const cli = (...args: string[]) => runInProcess(['queue', ...args], { env: envOf(server) });

test('of a project without a queue that is shown', async () => {
  const { code, stdout, stderr } = await cli('--project', randomUUID());
  expect({ code, stdout, stderr }).toEqual({
    code: 0,
    stdout: 'no queue\n',
    stderr: '',
  });
});

test('a queue is shown with its budget, its next turn and who waits', async () => {
  const projectId = `shop-${randomUUID()}`;
  const queue = await joined({ operation: 'create', projectId }, ['first\u001b[2J', 'last', 'behind']);
  const { stdout } = await cli('--project', projectId);
  const lines = stdout.split('\n');
  const field = (label: string) =>
    lines
      .find((line) => line.startsWith(label))
      ?.slice(label.length)
      .trim();
  expect([field('Operation'), field('Project')]).toEqual(['create', projectId]);
  const facts = { 'Per hour': '60', 'Per day': '500', 'Spent last hour': '60', 'Spent last day': '480' };
  for (const [label, shown] of Object.entries(facts)) expect(field(label)).toBe(shown);
  expect(['Throttled last hour', 'In flight'].map(field)).toEqual(['1', '2']);
  expect(field('Waiting count')).toBe('3');
  expect(stdout).toMatch(
    /POSITION +PRIORITY +SINCE +EXPECTED AT +WORKFLOW\n1 +2 +\d{4}-.* UTC +\d{4}-\S+ \S+ UTC +first \[2J\n/,
  );
  expect(stdout).toMatch(/\n2 +5 +\d{4}-\S+ \S+ UTC +last\n… and 1 more/);
  const [line, ...more] = jsonLines((await cli('--project', projectId, '--json')).stdout);
  expect(more).toEqual([]);
  expect(line).toMatchObject({ workflowId: queue.workflowId, operation: 'create', projectId, waitingCount: 3 });
  await joined({ operation: 'create', projectId }, ['a fourth']);
  const later = (await cli('--project', projectId)).stdout;
  expect(later).toMatch(/^Next turn at +2126-01-01 12:00:00 UTC$/m);
  expect(later).toMatch(/^Not before +2126-01-01 12:00:00 UTC$/m);
  await queue.terminate();
});

test('a queue that can not be read is an error, with the reason', async () => {
  const projectId = randomUUID();
  const workflowId = requestQueueId({ operation: 'message', projectId });
  const taskQueue = `nobody-${randomUUID()}`;
  const queue = await server.client.workflow.start('requestQueue', { workflowId, taskQueue, args: [] });
  const { code, stderr } = await cli('--project', projectId);
  expect(stderr).toContain(`agent-jobs: ${workflowId} could not be read: no worker of the task queue`);
  expect(code).toBe(1);
  await queue.terminate();
});
