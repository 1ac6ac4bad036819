/**
 * One short life of `agentJob` per path through the workflow; what they leave in history is replayed by every later
 * version. One of two lives that make the same commands is enough.
 */
import type { WorkflowHandle } from '@temporalio/client';
import {
  followUpSignal,
  jobStateQuery,
  pollNowSignal,
  resolveUnknownUpdate,
  sendFollowUpUpdate,
  type AgentJobInput,
  type ResolveUnknownInput,
} from '../../src/contract.js';
import { ReadFailedError, RejectedError } from '../../src/upstream/errors.js';
import type { agentJob } from '../../src/workflows/index.js';
import { inDoubt, notDelivered, rejected, throttled, unauthorized } from '../support/outcomes.js';
import type { ScriptedUpstream } from '../support/scripted-upstream.js';

export type Handle = WorkflowHandle<typeof agentJob>;

export interface Scenario {
  /** Without the project. */
  input: object;
  /** Prepares the upstream before the start. */
  upstream?: (upstream: ScriptedUpstream) => void;
  /** What callers and operators do meanwhile; the recorder then waits for the end. */
  act?: (handle: Handle, upstream: ScriptedUpstream) => Promise<void>;
}

const JOB = { prompt: 'Fix the login page', settle: 0 } satisfies Partial<AgentJobInput>;
const STANDING = { settle: '3 seconds', polling: { min: 1_000, max: 1_000 } };
const A = 'https://github.example/a/b/pull/1';
const B = 'https://github.example/a/b/pull/2';
const completed = (prLink: string | null) => ({ status: 'completed', prLink });
const active = (upstream: ScriptedUpstream) => (upstream.show = () => ({ status: 'active' }));
const activeUntil = (reads: number) => (upstream: ScriptedUpstream) =>
  (upstream.show = (read) => ({ status: read > reads ? 'completed' : 'active' }));
const unknownCreate = ({ createFaults }: ScriptedUpstream) => createFaults.push(inDoubt('reset'));
const unknownMessage = ({ messageFaults }: ScriptedUpstream) => messageFaults.push(inDoubt('reset'));
const missing = (count: number) => (upstream: ScriptedUpstream) =>
  upstream.readFaults.push(...Array.from({ length: count }, () => new RejectedError('no such job', 404, '')));

async function reach(handle: Handle, phase: string): Promise<void> {
  while ((await handle.query(jobStateQuery)).phase !== phase) await new Promise((done) => setTimeout(done, 100));
}

const resolve = (resolution: ResolveUnknownInput) => async (handle: Handle) => {
  await reach(handle, 'needsAttention');
  await handle.executeUpdate(resolveUnknownUpdate, { args: [resolution] });
};

export const SCENARIOS: Record<string, Scenario> = {
  polls: { input: { ...JOB, polling: { min: 1_000, max: 1_000 } }, upstream: activeUntil(3) },
  labels: { input: { ...JOB, batch: 'night', tags: ['a', 'b'], metadata: { correlationId: '4711' } } },
  attached: { input: { jobId: 'job-7', usedFollowUpIds: ['old'] } },
  'follow-up-signal': {
    input: JOB,
    upstream: (upstream) => (upstream.show = () => ({ status: upstream.messages.length ? 'completed' : 'active' })),
    act: async (handle) => {
      await reach(handle, 'watching');
      await handle.signal(followUpSignal, { prompt: 'And a test', id: 'one' });
    },
  },
  'follow-up-rejected': {
    input: JOB,
    upstream: (upstream) => {
      upstream.show = (read) => ({ status: read > 1 ? 'completed' : 'active' });
      upstream.messageFaults.push(rejected(400, 'too long'));
    },
    act: async (handle) => {
      await reach(handle, 'watching');
      await handle.signal(followUpSignal, { prompt: 'And a test' });
    },
  },
  'poll-now': {
    input: { ...JOB, polling: { min: '1 minute' } },
    upstream: activeUntil(1),
    act: async (handle) => {
      await reach(handle, 'watching');
      await handle.signal(pollNowSignal);
    },
  },
  'end-stands': { input: { ...JOB, ...STANDING }, upstream: activeUntil(1) },
  'late-link': {
    input: { ...JOB, ...STANDING },
    upstream: (upstream) => (upstream.show = (read) => completed(read > 2 ? A : null)),
  },
  'stale-end-after-follow-up': {
    input: { jobId: 'job-7', ...STANDING },
    upstream: (upstream) => {
      const after = [completed(A), completed(A), { status: 'active' }];
      upstream.show = () => (upstream.messages.length > 0 ? (after.shift() ?? completed(B)) : { status: 'active' });
    },
    act: async (handle) => {
      await handle.signal(followUpSignal, { prompt: 'And a test', id: 'one' });
    },
  },
  'key-refused': {
    input: JOB,
    upstream: ({ createFaults }) => createFaults.push(unauthorized('upstream answered 401')),
  },
  'not-sent': { input: JOB, upstream: ({ createFaults }) => createFaults.push(notDelivered('refused')) },
  'read-failed': {
    input: { ...JOB, polling: { min: 1_000, max: 1_000 } },
    upstream: ({ readFaults }) =>
      readFaults.push(new ReadFailedError('503', 503), new ReadFailedError('429', 429, 2_000)),
  },
  'missing-then-found': { input: { ...JOB, polling: { min: 1_000, max: 1_000 } }, upstream: missing(2) },
  lost: { input: { jobId: 'job-7', polling: { min: 1_000, max: 1_000 } }, upstream: missing(50) },
  'timed-out': { input: { ...JOB, deadline: 0 }, upstream: active },
  'timed-out-while-creating': {
    input: { ...JOB, deadline: 0 },
    upstream: ({ createFaults }) => createFaults.push(throttled('429', 60_000)),
  },
  'invalid-input': { input: { ...JOB, deadline: 'soon' } },
  'create-rejected': {
    input: JOB,
    upstream: ({ createFaults }) => createFaults.push(rejected(400, 'no')),
  },
  'unknown-create-fail': { input: { ...JOB, onUnknownOutcome: 'fail' }, upstream: unknownCreate },
  'unknown-create-retry': { input: { ...JOB, onUnknownOutcome: 'retry' }, upstream: unknownCreate },
  'unknown-create-undecided': { input: { ...JOB, decideWithin: 1_000 }, upstream: unknownCreate },
  'unknown-create-adopt': { input: JOB, upstream: unknownCreate, act: resolve({ action: 'adopt', jobId: 'job-1' }) },
  'unknown-create-confirmed': { input: JOB, upstream: unknownCreate, act: resolve({ action: 'retry' }) },
  'unknown-create-abandon': { input: JOB, upstream: unknownCreate, act: resolve({ action: 'abandon' }) },
  'unknown-follow-up-delivered': unknownFollowUp({ action: 'delivered' }),
  'unknown-follow-up-confirmed': unknownFollowUp({ action: 'retry' }),
  'cancel-while-watching': {
    input: JOB,
    upstream: active,
    act: async (handle) => {
      await reach(handle, 'watching');
      await handle.cancel();
    },
  },
  'cancel-while-unknown': {
    input: JOB,
    upstream: unknownCreate,
    act: async (handle) => {
      await reach(handle, 'needsAttention');
      await handle.cancel();
    },
  },
  'continue-as-new': {
    input: JOB,
    upstream: (upstream) => (upstream.show = () => ({ status: upstream.messages.length > 6 ? 'completed' : 'active' })),
    act: async (handle) => {
      await reach(handle, 'watching');
      for (let i = 0; i <= 6; i++) {
        await handle.executeUpdate(sendFollowUpUpdate, { args: [{ prompt: `Step ${i}`, id: `step-${i}` }] });
      }
    },
  },
};

function unknownFollowUp(resolution: ResolveUnknownInput): Scenario {
  return {
    input: JOB,
    upstream: unknownMessage,
    act: async (handle) => {
      await handle.signal(followUpSignal, { prompt: 'And a test', id: 'one' });
      await resolve(resolution)(handle);
    },
  };
}
