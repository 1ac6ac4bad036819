import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { FollowUpUnconfirmedError, MessageRefusedError } from '../../src/starter.js';
import { QUICK, startJobServer } from './job-server.js';
import { useForFile } from '../support/use.js';

const server = useForFile(startJobServer);

function start(prompt: string, key: string = randomUUID()) {
  return server.jobs.start({ projectId: server.projectId, key, prompt, ...QUICK });
}

test('many followers of an ended job, each repeating itself, deliver each message once, in one new run', async () => {
  const prompt = `prompt ${randomUUID()}`;
  const job = await start(prompt, 'shared');
  const { jobId } = await job.result();
  const ids = ['a', 'b', 'c', 'd'];
  const sends = [...ids, ...ids].map((id) => job.sendFollowUp(`message ${id}`, { id }));
  await Promise.all([...sends, start(prompt, 'shared')]);
  const result = await job.result();
  expect(result).toMatchObject({ outcome: 'completed', jobId });
  expect(result.usedFollowUpIds.toSorted()).toEqual(ids);
  const messages = await server.sandbox.messages({ jobId: jobId ?? '' });
  expect(messages.map((message) => message.prompt).toSorted()).toEqual(ids.map((id) => `message ${id}`));
  expect(await server.sandbox.creates({ promptIncludes: prompt })).toHaveLength(1);
});

test('a follow-up to an ended job starts a run with a result of its own', async () => {
  const prompt = `prompt ${randomUUID()}`;
  const [A, B] = ['https://github.example/a/b/pull/1', 'https://github.example/a/b/pull/2'];
  const steps = [{ status: 'completed', prLink: A }];
  const followUp = [{ status: 'active' }, { afterReads: 1, status: 'completed', prLink: B }];
  await server.sandbox.addScript({ promptIncludes: prompt, script: { steps, messageLagMs: 0, followUp } });
  const job = await start(prompt);
  expect(await job.result()).toMatchObject({ outcome: 'completed', prLink: A, followUps: [], sawWork: null });
  await job.sendFollowUp('Go on', { id: 'a' });
  const sent = [{ id: 'a', state: 'sent' }];
  expect(await job.result()).toMatchObject({ outcome: 'completed', prLink: B, followUps: sent, sawWork: true });
});

test('a run that goes on with an ended job keeps the texts of the first, over more than one of them', async () => {
  const key = `Ticket 7/ü ${randomUUID()}`;
  const job = await start('Add a page\nand its tests', key);
  await job.result();
  const first = await server.client.workflow.getHandle(job.workflowId).describe();
  const asked = (await first.staticDetails()) ?? '';
  expect(asked).toContain(`**Key** ${key}`);
  for (const id of ['a', 'b']) {
    await job.sendFollowUp('Go on', { id });
    await job.result();
    const run = await server.client.workflow.getHandle(job.workflowId).describe();
    expect(run.runId).not.toBe(first.runId);
    expect(await run.staticSummary()).toBe(`${server.projectId}: Add a page`);
    expect(await run.staticDetails()).toBe(asked);
  }
});

test('a follow-up id that is repeated with another prompt conflicts, in every later run too', async () => {
  const prompt = randomUUID();
  const job = await server.jobs.start({ ...QUICK, projectId: server.projectId, key: randomUUID(), prompt });
  const conflict = { code: 'FOLLOW_UP_CONFLICT', retryable: false, id: 'a' };
  expect(await job.sendFollowUp('one', { id: 'a' })).toMatchObject({ state: 'sent' });
  await expect(job.sendFollowUp('two', { id: 'a' })).rejects.toMatchObject(conflict);
  const { jobId } = await job.result();
  const expectConflict = async () => {
    await expect(job.sendFollowUp('two', { id: 'a' })).rejects.toMatchObject(conflict);
    await expect(job.followUp('two', { id: 'a' })).rejects.toMatchObject(conflict);
  };
  await expectConflict();
  expect(await job.sendFollowUp('one', { id: 'a' })).toMatchObject({ state: 'sent' });
  // The second id is the name of what each object has.
  for (const id of ['b', 'constructor']) {
    expect(await job.sendFollowUp('three', { id })).toMatchObject({ state: 'sent' });
    await expectConflict();
    await job.result();
    await expectConflict();
  }
  const messages = await server.sandbox.messages({ jobId: jobId! });
  expect(messages.map((message) => message.prompt)).toEqual(['one', 'three', 'three']);
});

test('a cancelled job is followed up on under the id that its run keeps', async () => {
  const prompt = `prompt ${randomUUID()}`;
  await server.sandbox.addScript({ promptIncludes: prompt, script: { activeMs: 8_000 } });
  const job = await start(prompt);
  await expect.poll(async () => (await job.state()).phase).toBe('watching');
  await job.sendFollowUp('one', { id: 'a' });
  await job.cancel();
  await job.result().catch(() => undefined);
  expect(await job.sendFollowUp('one', { id: 'a' })).toMatchObject({ state: 'sent' });
  expect(await job.sendFollowUp('two', { id: 'b' })).toMatchObject({ state: 'sent' });
  expect((await job.result()).usedFollowUpIds).toEqual(['a', 'b']);
  expect(await server.sandbox.creates({ promptIncludes: prompt })).toHaveLength(1);
});

test('a follow-up under way when its job is terminated is never said to be declined', async () => {
  const prompt = `prompt ${randomUUID()}`;
  await server.sandbox.addScript({ promptIncludes: prompt, script: { activeMs: 60_000 } });
  const job = await start(prompt);
  await expect.poll(async () => (await job.state()).phase).toBe('watching');
  const message = `message ${randomUUID()}`;
  await server.sandbox.addFault({ kind: 'hang', effect: 'after', promptIncludes: message });
  const { jobId } = await job.state();
  const sent = job.sendFollowUp(message, { id: 'a' }).catch((error: unknown) => error);
  await expect.poll(() => server.sandbox.messages({ jobId: jobId ?? '' })).toHaveLength(1);
  await server.client.workflow.getHandle(job.workflowId).terminate();
  expect(await sent).toBeInstanceOf(FollowUpUnconfirmedError);
  await expect(job.sendFollowUp(message, { id: 'a' })).rejects.toThrow(FollowUpUnconfirmedError);
  expect(await server.sandbox.messages({ jobId: jobId ?? '' })).toHaveLength(1);
});

test('a follow-up that the run made for it declines is never said to be queued', async () => {
  const { jobId } = await (await start(`prompt ${randomUUID()}`)).result();
  const usedFollowUpIds = Array.from({ length: 1_000 }, (_, i) => `used-${i}`);
  const full = { projectId: server.projectId, jobId: jobId ?? '', usedFollowUpIds, ...QUICK };
  const job = await server.jobs.attach(full);
  await job.result();
  await expect(job.followUp('one more', { id: 'one' })).rejects.toThrow(MessageRefusedError);
  await expect(job.sendFollowUp('one more', { id: 'one' })).rejects.toThrow(MessageRefusedError);
  expect(await server.sandbox.messages({ jobId: jobId ?? '' })).toEqual([]);
});
