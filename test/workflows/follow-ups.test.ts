import { createHash } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { WorkflowUpdateFailedError } from '@temporalio/client';
import { expect, test } from 'vitest';
import {
  followUpSignal,
  jobStateQuery,
  pollNowSignal,
  resolveUnknownUpdate,
  sendFollowUpUpdate,
  type FollowUpAnswer,
} from '../../src/contract.js';
import { inDoubt } from '../support/outcomes.js';
import { useDevServer } from '../support/job-tests.js';
import { gate } from '../support/observed-upstream.js';

const { upstream, bench } = useDevServer();
const unknown = () => inDoubt('upstream answered 500');

async function startWatched(options: object = {}) {
  const handle = await bench.start({ projectId: 'follow-ups', prompt: 'Fix it', settle: 0, ...options });
  await expect.poll(() => upstream.reads).toBeGreaterThan(0);
  return handle;
}

const staysActiveUntil = (isDone: () => boolean) => {
  upstream.show = () => ({ status: isDone() ? 'completed' : 'active' });
};

test('sendFollowUp answers once the upstream took the message, whether its answer could be read or not', async () => {
  staysActiveUntil(() => upstream.messages.length >= 2);
  const handle = await startWatched();
  upstream.messageAnswer = null;
  expect(await handle.executeUpdate(sendFollowUpUpdate, { args: [{ prompt: 'go', id: 'a' }] })).toEqual({
    id: 'a',
    state: 'sent',
    job: expect.objectContaining({ id: 'job-1', status: 'active' }),
  });
  await handle.signal(followUpSignal, { prompt: 'end' });
  await handle.result();
});

test('the same id is sent once, however it is repeated, and a repeated update answers with its outcome', async () => {
  staysActiveUntil(() => upstream.messages.length >= 2);
  const handle = await startWatched();
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  await handle.signal(followUpSignal, { prompt: 'go again', id: 'a' });
  const again = await handle.executeUpdate(sendFollowUpUpdate, { args: [{ prompt: 'go', id: 'a' }], updateId: 'u2' });
  expect(again).toMatchObject({ id: 'a', state: 'sent' });
  const once = { args: [{ prompt: 'end', id: 'b' }] as [{ prompt: string; id: string }], updateId: 'u3' };
  const [first, second] = await Promise.all([
    handle.executeUpdate(sendFollowUpUpdate, once),
    handle.executeUpdate(sendFollowUpUpdate, { ...once, updateId: 'u4' }),
  ]);
  expect([first.state, second.state]).toEqual(['sent', 'sent']);
  await handle.result();
  expect(upstream.messages).toEqual(['go', 'end']);
});

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

test('an id said again with another prompt is refused as an update, and ignored as a signal', async () => {
  staysActiveUntil(() => upstream.messages.length >= 2);
  const handle = await startWatched();
  await handle.executeUpdate(sendFollowUpUpdate, { args: [{ prompt: 'go', id: 'a' }] });
  const other = handle.executeUpdate(sendFollowUpUpdate, { args: [{ prompt: 'stop', id: 'a' }] });
  await expect(other).rejects.toMatchObject({ cause: { type: 'FollowUpConflict', nonRetryable: true } });
  await handle.signal(followUpSignal, { prompt: 'stop', id: 'a' });
  expect((await handle.query(jobStateQuery)).promptHashes).toEqual({ a: sha256('go').slice(0, 8) });
  await handle.executeUpdate(sendFollowUpUpdate, { args: [{ prompt: 'end', id: 'b' }] });
  const { promptHashes } = await handle.result();
  expect(promptHashes).toEqual({ a: sha256('go').slice(0, 8), b: sha256('end').slice(0, 8) });
  expect(upstream.messages).toEqual(['go', 'end']);
});

test('ids that an earlier run used up are not sent again', async () => {
  staysActiveUntil(() => upstream.messages.length >= 1);
  const handle = await bench.start({ projectId: 'follow-ups', jobId: 'j', usedFollowUpIds: ['old'], settle: 0 });
  await handle.signal(followUpSignal, { prompt: 'again', id: 'old' });
  expect(await handle.executeUpdate(sendFollowUpUpdate, { args: [{ prompt: 'again', id: 'old' }] })).toMatchObject({
    id: 'old',
    state: 'unknown',
  });
  await handle.signal(followUpSignal, { prompt: 'new', id: 'new' });
  expect((await handle.result()).usedFollowUpIds).toEqual(['old', 'new']);
  expect(upstream.messages).toEqual(['new']);
});

test('malformed follow-ups harm nothing: the update is rejected and not recorded, the signal ignored', async () => {
  staysActiveUntil(() => upstream.messages.length >= 1);
  const handle = await startWatched();
  const wrong: unknown[] = [
    undefined,
    null,
    'go',
    [],
    {},
    { prompt: '' },
    { prompt: 7 },
    { prompt: '\ud800' },
    { prompt: 'x'.repeat(512 * 1024 + 1) },
    { prompt: 'x', id: '' },
    { prompt: 'x', id: 7 },
    { prompt: 'x', id: 'é'.repeat(129) },
  ];
  for (const input of wrong) {
    await handle.signal(followUpSignal, input as never);
    await expect(handle.executeUpdate(sendFollowUpUpdate, { args: [input as never] })).rejects.toThrow(
      WorkflowUpdateFailedError,
    );
  }
  await handle.signal('nobodyKnowsThis', { a: 1 });
  await handle.signal(pollNowSignal);
  const { events } = await handle.fetchHistory();
  expect(events!.filter((e) => e.workflowExecutionUpdateAcceptedEventAttributes)).toHaveLength(0);
  await handle.signal(followUpSignal, { prompt: 'good', id: 'x'.repeat(256) });
  expect(await handle.result()).toMatchObject({ outcome: 'completed', followUps: [{ state: 'sent' }] });
  expect(upstream.messages).toEqual(['good']);
});

test('five updates wait, further ones answer queued at once, and resolveUnknown still gets through', async () => {
  staysActiveUntil(() => upstream.messages.length >= 9);
  const handle = await startWatched();
  upstream.messageFaults.push(unknown());
  const { opened, open } = gate();
  upstream.messageGate = opened;
  const send = (id: string) =>
    handle.executeUpdate(sendFollowUpUpdate, { args: [{ prompt: `do ${id}`, id }], updateId: `u-${id}` });
  const first = send('1');
  await expect.poll(() => upstream.messages.length).toBe(1);
  const others: Promise<FollowUpAnswer>[] = [];
  for (const id of ['2', '3', '4', '5']) {
    others.push(send(id));
    await expect.poll(async () => (await handle.query(jobStateQuery)).followUps.at(-1)?.id).toBe(id);
  }
  for (const id of ['6', '7', '8']) expect(await send(id)).toMatchObject({ id, state: 'queued' });
  open();
  // Its own is unknown, the others learn that they wait.
  expect(await first).toMatchObject({ id: '1', state: 'unknown' });
  for (const answer of await Promise.all(others)) expect(answer.state).toBe('queued');
  expect(await send('9')).toMatchObject({ state: 'queued' });
  expect(
    await handle.executeUpdate(sendFollowUpUpdate, { args: [{ prompt: 'do 1', id: '1' }], updateId: 'again' }),
  ).toMatchObject({ id: '1', state: 'unknown' });
  const state = await handle.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'delivered' }] });
  expect(state).toMatchObject({ phase: 'sending', unknown: null });
  const result = await handle.result();
  expect(result.followUps.every((followUp) => followUp.state === 'sent')).toBe(true);
  expect(upstream.messages).toEqual(['1', '2', '3', '4', '5', '6', '7', '8', '9'].map((id) => `do ${id}`));
});

test('a job whose queue is full at its start is polled on from the first follow-up on', async () => {
  const { opened, open } = gate();
  upstream.createGate = opened;
  upstream.show = () => ({ status: upstream.messages.length === 3 ? 'completed' : 'active' });
  const send = upstream.sendMessage.bind(upstream);
  const readsBefore: number[] = [];
  upstream.sendMessage = async (request) => {
    for (let tries = 0; upstream.messages.length === 2 && upstream.reads === 0 && tries < 200; tries++) await pause(50);
    readsBefore.push(upstream.reads);
    return send(request);
  };
  const job = await bench.start({ projectId: 'p1', prompt: 'Fix it', settle: 0 });
  for (const id of ['a', 'b', 'c']) await job.signal(followUpSignal, { id, prompt: id });
  open();
  expect(await job.result()).toMatchObject({ outcome: 'completed' });
  expect(upstream.messages).toEqual(['a', 'b', 'c']);
  expect(readsBefore[2]).toBeGreaterThan(0);
});
