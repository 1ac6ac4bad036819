import { randomUUID } from 'node:crypto';
import { afterEach, expect, test } from 'vitest';
import { followUpSignal, jobStateQuery, resolveUnknownUpdate } from '../../src/contract.js';
import { throttled } from '../support/outcomes.js';
import { useDevServer } from '../support/job-tests.js';
import { gate } from '../support/observed-upstream.js';

const { server, upstream, bench } = useDevServer();
let opened: (() => void) | undefined;
afterEach(() => opened?.());

type Handle = Awaited<ReturnType<typeof bench.start>>;
const text = (value: string) => new TextEncoder().encode(value);
const json = (value: unknown) => ({ metadata: { encoding: text('json/plain') }, data: text(JSON.stringify(value)) });

/** Results that no activity of this release gives: a newer worker's, or an operator's `temporal activity complete`. */
const STRANGE: Record<string, object> = {
  'of a kind of a later release': json({ kind: 'queued', reason: 'wait' }),
  'that is null': json(null),
  'that is a text': json('done'),
  'that is a list': json([{ kind: 'accepted' }]),
  'that can not be decoded': { metadata: { encoding: text('binary/encrypted') }, data: text('secret') },
  'without content': { metadata: { encoding: text('binary/null') } },
  'that was taken, without saying which job': json({ kind: 'accepted', job: null }),
  'that was rejected, without a status': json({ kind: 'rejected', error: 'no' }),
  'that was not taken, with a wait that is no number': json({ kind: 'throttled', reason: '429', retryAfterMs: 'soon' }),
  'that is unknown, asked about in no run': json({
    kind: 'inDoubt',
    reason: 'x',
    toConfirm: { runId: 7 },
  }),
  'that was not sent, without a reason': json({ kind: 'notDelivered' }),
};

/** Completes the pending activity of a type as an operator would. */
async function complete({ workflowId }: Handle, type: string, payload: object): Promise<void> {
  const { client, namespace } = server;
  const pending = async () => {
    const { raw } = await client.workflow.getHandle(workflowId).describe();
    return raw.pendingActivities?.find(({ activityType }) => activityType?.name === type)?.activityId ?? null;
  };
  await expect.poll(pending).not.toBeNull();
  const activityId = await pending();
  await client.workflowService.respondActivityTaskCompletedById({
    namespace,
    workflowId,
    runId: '',
    activityId,
    result: { payloads: [payload] },
    identity: 'operator',
  });
}

function holdBack(): Promise<void> {
  const { opened: answered, open } = gate();
  opened = open;
  return answered;
}

test('a create whose result is strange, in any of these ways, is in doubt and is not sent again', async () => {
  upstream.show = () => ({ status: 'active' });
  upstream.createGate = holdBack();
  const job = { prompt: 'Fix it', onUnknownOutcome: 'retry' };
  const results = Object.entries(STRANGE);
  const handles = await Promise.all(results.map(() => bench.start({ ...job, projectId: `p ${randomUUID()}` })));
  await expect.poll(() => upstream.created.length).toBe(results.length);
  await Promise.all(handles.map((handle, i) => complete(handle, 'createJob', results[i]![1])));
  for (const [i, [title]] of results.entries()) {
    const state = () => handles[i]!.query(jobStateQuery);
    await expect.poll(async () => (await state()).phase, { message: title }).toBe('needsAttention');
    const reason: unknown = expect.stringContaining('does not know');
    expect((await state()).unknown, title).toMatchObject({ kind: 'create', reason });
  }
  expect(upstream.created).toHaveLength(results.length);
  for (const [i, handle] of handles.entries()) {
    await handle.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'adopt', jobId: `job-${i}` }] });
    await expect.poll(async () => (await handle.query(jobStateQuery)).phase).toBe('watching');
  }
});

test('a write that was throttled for longer than any time waits for an hour at most', async () => {
  upstream.createFaults.push(throttled('429', 1_000));
  const held = holdBack();
  const holdsSecond = { configurable: true, get: () => (upstream.created.length > 0 ? held : undefined) };
  Object.defineProperty(upstream, 'createGate', holdsSecond);
  const handle = await bench.start({ projectId: 'strange-results', prompt: 'Fix it' });
  await expect.poll(() => upstream.created.length).toBe(2);
  const refused = { kind: 'throttled', reason: 'x', retryAfterMs: 1e300, queued: null };
  await complete(handle, 'createJob', json(refused));
  const untilMs = async () => Date.parse((await handle.query(jobStateQuery)).waiting?.until ?? '') - Date.now();
  await expect.poll(untilMs).toBeGreaterThan(50 * 60_000);
  expect(await untilMs()).toBeLessThanOrEqual(61 * 60_000);
});

test('a message that was taken, with a record that is none, counts as sent: the kind is the proof', async () => {
  upstream.show = () => ({ status: 'active' });
  upstream.messageGate = holdBack();
  const handle = await bench.start({ projectId: 'strange-results', prompt: 'Fix it', settle: 0 });
  await handle.signal(followUpSignal, { prompt: 'go', id: 'a' });
  await expect.poll(() => upstream.messages.length).toBe(1);
  await complete(handle, 'sendMessage', json({ kind: 'accepted', jobId: 'job-1', job: { status: 7 } }));
  await expect.poll(async () => (await handle.query(jobStateQuery)).followUps[0]?.state).toBe('sent');
  expect((await handle.query(jobStateQuery)).job).toMatchObject({ status: 'active' });
});

const STRANGE_POLLS: Record<string, object> = {
  'that is null': json(null),
  'of a kind of a later release': json({ reading: { kind: 'moved' }, reads: 1, failures: 0 }),
  'without a reading': json({ reads: 1, failures: 0 }),
  'whose record is none': json({ reading: { kind: 'record', job: { id: 7 } }, reads: 1, failures: 0 }),
  'whose counts are no numbers': json({ reading: { kind: 'unchanged' }, reads: 'many', failures: null }),
  'whose 404 are not counted': json({ reading: { kind: 'notFound' }, reads: 1, failures: 1 }),
  'that can not be decoded': { metadata: { encoding: text('binary/encrypted') }, data: text('secret') },
};

test('a poll whose result is strange, in any of these ways, is a failed read, and the watch goes on', async () => {
  upstream.readGate = holdBack();
  const results = Object.entries(STRANGE_POLLS);
  const start = (_: unknown, i: number) => bench.start({ projectId: 'strange-results', jobId: `job-${i}` });
  const handles = await Promise.all(results.map(start));
  await expect.poll(() => upstream.reads).toBe(results.length);
  await Promise.all(handles.map((handle, i) => complete(handle, 'pollJob', results[i]![1])));
  await expect.poll(() => upstream.reads).toBe(2 * results.length);
  for (const [i, handle] of handles.entries()) {
    const { polls, phase } = await handle.query(jobStateQuery);
    expect({ polls, phase }, results[i]![0]).toEqual({ polls: 1, phase: 'watching' });
  }
  opened?.();
  for (const [i, handle] of handles.entries())
    expect(await handle.result(), results[i]![0]).toMatchObject({ outcome: 'completed', polls: 2 });
});
