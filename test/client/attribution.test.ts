import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { expect, test } from 'vitest';
import { InvalidInputError, type JobHandle } from '../../src/starter.js';
import { startScriptedServer } from './scripted-server.js';
import { useForFile } from '../support/use.js';

const AUTHOR = { by: 'ann@host', note: 'superseded,\nsee #12' };

const server = useForFile(startScriptedServer);

function startJob(): Promise<JobHandle> {
  return server.jobs.start({ projectId: server.projectId, key: randomUUID(), prompt: 'stay' });
}

async function eventsOf({ workflowId }: JobHandle) {
  const { events } = await server.client.workflow.getHandle(workflowId).fetchHistory();
  return events!;
}

/** Temporal holds a message back from history while a workflow task runs. */
async function cancelEventOf(job: JobHandle) {
  const find = async () =>
    (await eventsOf(job)).flatMap((event) => event.workflowExecutionCancelRequestedEventAttributes ?? []);
  await expect.poll(find).toHaveLength(1);
  return (await find())[0];
}

test('who cancels a job, and why, stands in Temporal’s history', async () => {
  const job = await startJob();
  await job.cancel(AUTHOR);
  expect(await cancelEventOf(job)).toMatchObject({ identity: AUTHOR.by, cause: AUTHOR.note });
  await expect(job.result()).rejects.toMatchObject({ name: 'JobCanceledError' });
});

test('a cancellation without an author has the client’s identity, and no reason', async () => {
  const job = await startJob();
  await job.cancel();
  expect(await cancelEventOf(job)).toMatchObject({ identity: `${process.pid}@${hostname()}`, cause: '' });
  const noted = await startJob();
  await noted.cancel({ note: 'enough', by: null });
  expect(await cancelEventOf(noted)).toMatchObject({ identity: `${process.pid}@${hostname()}`, cause: 'enough' });
});

test('who wants a job polled at once, and why, stands in Temporal’s history', async () => {
  const job = await startJob();
  await job.pollNow(AUTHOR);
  await job.pollNow();
  const read = async () => {
    const signals = (await eventsOf(job)).flatMap((event) => event.workflowExecutionSignaledEventAttributes ?? []);
    return signals.map(({ input }) => (input?.payloads ?? []).map(({ data }) => Buffer.from(data!).toString()));
  };
  await expect.poll(read).toEqual([[JSON.stringify(AUTHOR)], []]);
  await job.cancel();
});

test('a wrong author or note is invalid, and nothing is sent', async () => {
  const job = await startJob();
  const calls = [
    () => job.cancel({ by: 'two\nlines' }),
    () => job.cancel({ note: 'n'.repeat(1_001) }),
    () => job.pollNow({ by: '' }),
    () => job.pollNow({ note: 7 as never }),
    async () => job.resolve({ action: 'retry', by: '\u001b[2J' }),
  ];
  for (const call of calls) await expect(call()).rejects.toThrow(InvalidInputError);
  // What had been sent would come before this one.
  await job.cancel({ note: 'the only message' });
  expect(await cancelEventOf(job)).toMatchObject({ cause: 'the only message' });
  const signals = (await eventsOf(job)).flatMap((event) => event.workflowExecutionSignaledEventAttributes ?? []);
  expect(signals).toEqual([]);
});
