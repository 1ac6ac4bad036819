import { randomUUID } from 'node:crypto';
import { WorkflowUpdateFailedError } from '@temporalio/client';
import { expect, test } from 'vitest';
import { followUpSignal, jobStateQuery, resolveUnknownUpdate, type ResolveUnknownInput } from '../../src/contract.js';
import { RejectedError } from '../../src/upstream/errors.js';
import { inDoubt } from '../support/outcomes.js';
import { useDevServer } from '../support/job-tests.js';

const { upstream, bench } = useDevServer();
const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string;

type Handle = Awaited<ReturnType<typeof bench.start>>;
const stateOf = (handle: Handle) => handle.query(jobStateQuery);
const resolve = (handle: Handle, resolution: ResolveUnknownInput) =>
  handle.executeUpdate(resolveUnknownUpdate, { args: [resolution] });

async function untilAttention(handle: Handle, reason = ''): Promise<void> {
  await expect.poll(async () => (await stateOf(handle)).unknown?.reason ?? '-').toContain(reason);
}

async function startUnknownFollowUp(options: object = {}): Promise<Handle> {
  upstream.show = () => ({ status: 'active' });
  upstream.messageFaults.push(inDoubt('upstream answered 500'));
  const handle = await bench.start({ projectId: 'p1', jobId: 'job-1', settle: 0, ...options });
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  await untilAttention(handle, '500');
  return handle;
}

test('every decision is shown with its author, in the state, in the answer and in the result', async () => {
  upstream.createFaults.push(inDoubt('first'), inDoubt('second'));
  upstream.messageFaults.push(inDoubt('third'), inDoubt('fourth'));
  upstream.show = () => ({ status: 'active' });
  const handle = await bench.start({
    projectId: `p ${randomUUID()}`,
    prompt: 'Fix it',
    settle: 0,
    polling: { max: '1 second' },
  });
  expect((await stateOf(handle)).decisions).toEqual([]);
  await untilAttention(handle, 'first');
  const note = 'Not in the list.\n\nLooked *twice* <b>';
  await resolve(handle, { action: 'retry', by: 'ann_b@host', note });
  await untilAttention(handle, 'second');
  const adopted = await resolve(handle, { action: 'adopt', jobId: 'job-1', by: 'bob' });
  const first = { action: 'retry', kind: 'create', by: 'ann_b@host', note, at: TIME };
  const second = { action: 'adopt', kind: 'create', jobId: 'job-1', by: 'bob', at: TIME };
  expect(adopted.decisions).toEqual([first, second]);
  expect((await stateOf(handle)).decisions).toEqual(adopted.decisions);
  await handle.signal(followUpSignal, { prompt: 'go', id: 'f_1' });
  await untilAttention(handle, 'third');
  await resolve(handle, { action: 'delivered' });
  await handle.signal(followUpSignal, { prompt: 'go on', id: 'f_2' });
  await untilAttention(handle, 'fourth');
  await resolve(handle, { action: 'abandon', note: 'no longer needed' });
  const third = { action: 'delivered', kind: 'followUp', followUpId: 'f_1', at: TIME };
  const fourth = { action: 'abandon', kind: 'followUp', followUpId: 'f_2', note: 'no longer needed', at: TIME };
  upstream.show = () => ({ status: 'completed' });
  const result = await handle.result();
  expect(result.decisions).toEqual([first, second, third, fourth]);
  expect(await stateOf(handle)).toMatchObject({ phase: 'done', decisions: result.decisions });
});

test('a resolution that does not fit is rejected before it is recorded', async () => {
  const handle = await startUnknownFollowUp({ polling: { max: '1 second' } });
  const wrong: unknown[] = [
    { action: 'adopt', jobId: 'j' },
    { action: 'guess' },
    { action: 'retry', since: '2020-01-01T00:00:00.000Z' },
    { action: 'retry', since: '' },
    { action: 'retry', followUpId: 'b' },
    { action: 'retry', followUpId: '' },
    { action: 'retry', by: 'ann\n' },
    { action: 'retry', by: 'ann', note: 'n'.repeat(1_001) },
    { action: 'retry', by: 7 },
    {},
    null,
    'retry',
  ];
  for (const resolution of wrong) {
    await expect(resolve(handle, resolution as ResolveUnknownInput)).rejects.toThrow(WorkflowUpdateFailedError);
  }
  const { events } = await handle.fetchHistory();
  expect(events!.some((e) => e.workflowExecutionUpdateAcceptedEventAttributes)).toBe(false);
  const { unknown: present, decisions } = await stateOf(handle);
  expect(decisions).toEqual([]);
  upstream.show = () => ({ status: 'completed' });
  await resolve(handle, { action: 'delivered', since: present!.since, followUpId: 'a' });
  await expect(resolve(handle, { action: 'delivered' })).rejects.toThrow();
  expect(await handle.result()).toMatchObject({ outcome: 'completed', followUps: [{ id: 'a', state: 'sent' }] });
  expect(upstream.messages).toEqual(['go']);
});

test('an adoption that was refused is not recorded', async () => {
  upstream.createFaults.push(inDoubt('lost'));
  const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it' });
  await untilAttention(handle, 'lost');
  upstream.readFaults.push(new RejectedError('upstream answered 404', 404, 'no such job'));
  await expect(resolve(handle, { action: 'adopt', jobId: 'nope', by: 'ann' })).rejects.toThrow();
  expect(await stateOf(handle)).toMatchObject({ phase: 'needsAttention', decisions: [] });
});

test('if two people decide at once, the first decision is shown', async () => {
  const handle = await startUnknownFollowUp();
  const decided = await Promise.allSettled(
    ['ann', 'bob'].map((by) => resolve(handle, { action: 'delivered', by, note: `by ${by}` })),
  );
  expect(decided.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  const first = decided[0]!.status === 'fulfilled' ? 'ann' : 'bob';
  expect((await stateOf(handle)).decisions).toMatchObject([{ action: 'delivered', by: first, note: `by ${first}` }]);
});
