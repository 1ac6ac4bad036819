import { WorkflowUpdateFailedError } from '@temporalio/client';
import { expect, test } from 'vitest';
import { followUpSignal, jobStateQuery, resolveUnknownUpdate, type ResolveUnknownInput } from '../../src/contract.js';
import { inDoubt } from '../support/outcomes.js';
import { useDevServer } from '../support/job-tests.js';

/*
 * Not on the time-skipping server: it refuses, for ever, a task that cancels a poll which ends at that moment
 * (`ACTIVITY_UNKNOWN`), and a decision about a follow-up cancels the poll that runs beside it.
 */
const tests = useDevServer();
const unknown = () => inDoubt('upstream answered 500');
const input = { projectId: 'p1', prompt: 'Fix it', settle: 0, polling: { max: '1 second' } };

type Handle = Awaited<ReturnType<typeof tests.bench.start>>;
const stateOf = (handle: Handle) => handle.query(jobStateQuery);
const resolve = (handle: Handle, resolution: ResolveUnknownInput) =>
  handle.executeUpdate(resolveUnknownUpdate, { args: [resolution] });

async function startUnknownFollowUp(options: object = {}): Promise<Handle> {
  const { upstream, bench } = tests;
  upstream.show = () => ({ status: 'active' });
  upstream.messageFaults.push(unknown());
  const handle = await bench.start({ ...input, ...options });
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  await expect.poll(async () => (await stateOf(handle)).phase).toBe('needsAttention');
  return handle;
}

test('a resolution that does not fit is rejected before it is recorded', async () => {
  const handle = await startUnknownFollowUp();
  const wrong: unknown[] = [
    { action: 'adopt', jobId: 'j' },
    { action: 'guess' },
    { action: 'retry', since: '2020-01-01T00:00:00.000Z' },
    { action: 'retry', since: '' },
    { action: 'retry', followUpId: 'b' },
    { action: 'retry', followUpId: '' },
    {},
    null,
    'retry',
  ];
  for (const resolution of wrong) {
    await expect(resolve(handle, resolution as ResolveUnknownInput)).rejects.toThrow(WorkflowUpdateFailedError);
  }
  const { events } = await handle.fetchHistory();
  expect(events!.some((e) => e.workflowExecutionUpdateAcceptedEventAttributes)).toBe(false);
  const { unknown: present } = await stateOf(handle);
  tests.upstream.show = () => ({ status: 'completed' });
  await resolve(handle, { action: 'delivered', since: present!.since, followUpId: 'a' });
  await expect(resolve(handle, { action: 'delivered' })).rejects.toThrow();
  expect(await handle.result()).toMatchObject({ outcome: 'completed', followUps: [{ id: 'a', state: 'sent' }] });
  expect(tests.upstream.messages).toEqual(['go']);
});
