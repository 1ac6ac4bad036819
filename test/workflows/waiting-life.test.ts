/** A job's whole life with faults: at every moment its state says why nothing happens. */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { followUpSignal, type JobState, type Waiting } from '../../src/contract.js';
import { AgentJobs, type JobHandle } from '../../src/starter.js';
import { ReadFailedError } from '../../src/upstream/errors.js';
import { useDevServer } from '../support/job-tests.js';
import { inDoubt, notDelivered, throttled, unauthorized } from '../support/outcomes.js';

const { server, upstream, bench } = useDevServer();
const WRITES: readonly unknown[] = ['createJob', 'sendMessage'];

/** A state, and whether a write's activity was handed out at that very moment. */
interface Sample {
  state: JobState;
  isWriting: boolean;
}

/** Null if the history grew meanwhile: then the moment is not known any more. */
async function sample(job: JobHandle): Promise<Sample | null> {
  const describe = () => server.client.workflow.getHandle(job.workflowId).describe();
  const before = await describe();
  const state = await job.state();
  const after = await describe();
  if (before.historyLength !== after.historyLength || before.runId !== after.runId) return null;
  const pending = before.raw.pendingActivities ?? [];
  return { state, isWriting: pending.some(({ activityType }) => WRITES.includes(activityType?.name)) };
}

test('from its start to its end a job shows what it waits for, whatever fails', async () => {
  upstream.createFaults.push(
    throttled('upstream answered 429', 4_000),
    unauthorized('upstream answered 401'),
    notDelivered('connection refused'),
    inDoubt('reset'),
  );
  upstream.messageFaults.push(throttled('upstream answered 429', 4_000));
  upstream.readFaults.push(new ReadFailedError('429', 429, 4_000), new ReadFailedError('503', 503, 4_000));
  // The message finds the job at its end, which may be from before: it must stand.
  upstream.messageAnswer = { status: 'completed' };
  upstream.show = () => ({ status: upstream.messages.length > 1 ? 'completed' : 'active' });
  const { workflowId } = await bench.start({
    ...{ projectId: `p ${randomUUID()}`, prompt: 'Fix it', settle: '6 seconds' },
    polling: { min: 1_000, max: 1_000 },
  });
  const job = new AgentJobs({ client: server.client }).handle(workflowId);
  const handle = server.client.workflow.getHandle(workflowId);
  const silent: JobState[] = [];
  const told = new Map<string, Waiting>();
  let isDecided = false;
  let isSteered = false;
  for (let phase = ''; phase !== 'done';) {
    // What it waits for takes a second at least.
    await pause(100);
    const seen = await sample(job);
    if (!seen) continue;
    const { state, isWriting } = seen;
    phase = state.phase;
    if (state.waiting) told.set(state.waiting.for, { ...told.get(state.waiting.for), ...state.waiting });
    // Nothing is waited for only while a write is under way, or when all is over.
    else if (!isWriting && phase !== 'done') silent.push(state);
    if (state.waiting?.for === 'person' && !isDecided) {
      isDecided = true;
      await job.resolve({ action: 'retry' });
    }
    if (upstream.readFaults.length === 0 && state.waiting?.for === 'poll' && !isSteered) {
      isSteered = true;
      await handle.signal(followUpSignal, { prompt: 'And a test', id: 'one' });
    }
  }
  expect(silent).toEqual([]);
  expect([...told.keys()].toSorted()).toEqual(['key', 'person', 'poll', 'rateLimit', 'settle', 'upstream']);
  const { startedAt, finishedAt, ...result } = await job.result();
  for (const { since } of told.values()) expect(startedAt <= since && since <= finishedAt).toBe(true);
  const timed = [...told.values()].flatMap(({ for: what, since, until = '' }) => (since < until ? what : []));
  expect(timed).toEqual(expect.arrayContaining(['rateLimit', 'settle', 'upstream']));
  expect(result).toMatchObject({ outcome: 'completed', followUps: [{ id: 'one', state: 'sent' }] });
});
