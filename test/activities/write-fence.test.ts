/**
 * The fence around the last byte of a write, over a real HTTP upstream; the Temporal server's side of it is in
 * test/chaos.
 */
import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';
import type { Client } from '@temporalio/client';
import { MockActivityEnvironment } from '@temporalio/testing';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { createJobActivities } from '../../src/activities/agent-job/job-activities.js';
import { checkPriorAttempt } from '../../src/activities/agent-job/write-fence.js';
import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import { noMetrics } from '../support/no-metrics.js';
import { DEFAULT_PRIORITY } from '../../src/contract.js';
import { type Answer, clientOf, http, RawUpstream, rejectionOf } from '../upstream/raw-upstream.js';

const SCHEDULED_AT = Date.UTC(2026, 0, 1);

const closers: (() => unknown)[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  syncBuiltinESMExports();
  await Promise.all(closers.splice(0).map((close) => close()));
});

interface Attempt {
  raw: RawUpstream;
  /** Details of the heartbeats, with those that the SDK sends later, of its own accord. */
  marks: unknown[];
  create: () => Promise<WriteOutcome>;
}

/** No life before may have sent anything. */
const FIRST_LIFE = {
  life: { runId: new MockActivityEnvironment().context.info.workflowExecution!.runId, doubt: null },
  confirmed: null,
};

/** A Temporal client that knows nothing but the fence's heartbeat. */
function clientWith(heartbeat: (token: unknown, details: unknown) => Promise<void>): Client {
  const call = <T>(_: unknown, work: () => T) => work();
  return { withAbortSignal: call, withDeadline: call, activity: { heartbeat } } as unknown as Client;
}

/** One attempt of a create; `mark` is what the Temporal server does with the fence's heartbeat. */
async function attempt({
  mark = () => Promise.resolve(),
  answer = () => http(201),
  heartbeatDetails,
}: {
  mark?: (raw: RawUpstream) => Promise<void>;
  answer?: Answer;
  heartbeatDetails?: unknown;
}): Promise<Attempt> {
  const raw = await RawUpstream.onRequest(answer);
  const upstream = clientOf(raw.url, { timeoutMs: 3_000 });
  closers.push(
    () => upstream.close(),
    () => raw.close(),
  );
  const marks: unknown[] = [];
  const client = clientWith(async (_: unknown, details: unknown) => {
    marks.push(details);
    await mark(raw);
  });
  const info = { currentAttemptScheduledTimestampMs: SCHEDULED_AT, heartbeatDetails };
  const environment = new MockActivityEnvironment(info, { client });
  environment.on('heartbeat', (details: unknown) => marks.push(details));
  const shutdownSignal = new AbortController().signal;
  const { createJob } = createJobActivities({ upstream, shutdownSignal, metrics: noMetrics });
  const input = {
    projectId: 'p',
    prompt: 'x',
    priority: DEFAULT_PRIORITY,
    askedAt: SCHEDULED_AT,
    turn: null,
    isOverdue: false,
    ...FIRST_LIFE,
  };
  return { raw, marks, create: () => environment.run(createJob, input) };
}

describe('the fence', () => {
  test('is raised once all but the last byte are with the upstream, and not before', async () => {
    const seen: string[] = [];
    const mark = (raw: RawUpstream) => Promise.resolve(void seen.push(raw.text));
    const { marks, create } = await attempt({ mark });
    expect(await create()).toMatchObject({ kind: 'accepted' });
    expect(seen).toEqual([expect.stringMatching(/^POST [^]*\{"prompt":"x"$/)]);
    expect(marks).toEqual([{ sent: true }]);
  });

  test('is not raised where no connection is made or all is refused before', async () => {
    const refused = await attempt({});
    await refused.raw.close();
    expect(await refused.create()).toMatchObject({ kind: 'notDelivered', reason: 'connection refused' });
    closers.length -= 1;
    expect(refused.marks).toEqual([]);
  });

  test('that the server does not take keeps the last byte back, and the mark is taken back', async () => {
    const { raw, marks, create } = await attempt({ mark: () => Promise.reject(new Error('not found')) });
    expect(await rejectionOf(create())).toMatchObject({ type: 'FenceRefused' });
    expect(marks).toEqual([{ sent: true }, { sent: false }]);
    expect(raw.requests).toEqual([]);
  });

  test('that was raised by an earlier attempt keeps this one from connecting', async () => {
    const { raw, create } = await attempt({ heartbeatDetails: { sent: true } });
    expect(await create()).toMatchObject({ kind: 'inDoubt', reason: expect.stringContaining('died') });
    expect(raw.connections).toBe(0);
  });
});

describe('a last byte is too late', () => {
  /** Lets clocks go on by so much while the server takes the mark; all others stand still. */
  async function afterPause(advance: { monotonic?: number; boot?: number; wall?: number }): Promise<WriteOutcome> {
    const { monotonic = 0, boot = 0, wall = 0 } = advance;
    const begin = { monotonic: performance.now(), boot: os.uptime(), wall: Date.now() };
    const pass = (share: number) => {
      vi.spyOn(performance, 'now').mockReturnValue(begin.monotonic + share * monotonic);
      vi.spyOn(os, 'uptime').mockReturnValue(begin.boot + (share * boot) / 1_000);
      vi.spyOn(Date, 'now').mockReturnValue(begin.wall + share * wall);
      syncBuiltinESMExports();
    };
    pass(0);
    const { create } = await attempt({ mark: () => Promise.resolve(pass(1)) });
    return create();
  }
  const late = { kind: 'notDelivered', reason: 'it was too late to send it' };

  test('by the monotonic clock', async () => {
    // A little more than the limit: the sum of two such times is not exact.
    expect(await afterPause({ monotonic: 10_001 })).toMatchObject(late);
  });

  test('by the boot clock alone, as after a machine’s sleep whose wall clock was set back', async () => {
    expect(await afterPause({ boot: 10_000, wall: -3_600_000 })).toMatchObject(late);
  });

  test('by the wall clock alone, as after a virtual machine’s pause', async () => {
    expect(await afterPause({ wall: 10_000 })).toMatchObject(late);
  });

  test('by none of them: it leaves', async () => {
    expect(await afterPause({ monotonic: 9_000, boot: 9_000, wall: 9_000 })).toMatchObject({ kind: 'accepted' });
  });

  test('for the repeat with a newer key, counted from the first mark', async () => {
    const raw = await RawUpstream.onRequest(({ headers }) =>
      http(headers['authorization'] === 'Bearer new' ? 201 : 401),
    );
    const keys = { keyFor: () => Promise.resolve('old'), refresh: () => Promise.resolve('new') };
    const upstream = clientOf(raw.url, { keys });
    closers.push(
      () => upstream.close(),
      () => raw.close(),
    );
    const startedAt = Date.now();
    let marks = 0;
    const heartbeat = () => {
      marks += 1;
      vi.spyOn(Date, 'now').mockReturnValue(startedAt + marks * 6_000);
      return Promise.resolve();
    };
    const client = clientWith(heartbeat);
    const environment = new MockActivityEnvironment({}, { client });
    const shutdownSignal = new AbortController().signal;
    const { createJob } = createJobActivities({ upstream, shutdownSignal, metrics: noMetrics });
    vi.spyOn(Date, 'now').mockReturnValue(startedAt);
    const input = {
      projectId: 'p',
      prompt: 'x',
      priority: DEFAULT_PRIORITY,
      askedAt: startedAt,
      turn: null,
      isOverdue: false,
      ...FIRST_LIFE,
    };
    expect(await environment.run(createJob, input)).toMatchObject(late);
    expect({ marks, requests: raw.requests.length }).toEqual({ marks: 2, requests: 1 });
  });
});

describe('an unknown outcome says from when on a check upstream can be trusted', () => {
  test('30 s after this worker judged it', async () => {
    const { create } = await attempt({ answer: (_, socket) => void socket.resetAndDestroy() });
    const { lookAfter } = (await create()) as { lookAfter: number };
    expect(lookAfter - SCHEDULED_AT).toBeGreaterThanOrEqual(30_000);
    expect(lookAfter - SCHEDULED_AT).toBeLessThan(60_000);
  });

  test('two minutes after the attempt of a worker that died was given up', async () => {
    const { create } = await attempt({ heartbeatDetails: { sent: true } });
    const { lookAfter } = (await create()) as { lookAfter: number };
    expect(lookAfter - SCHEDULED_AT).toBeGreaterThanOrEqual(120_000);
    expect(lookAfter - SCHEDULED_AT).toBeLessThan(180_000);
  });
});

/** What an attempt knows of the ones before it, by the details that they left. */
function known(heartbeatDetails: unknown) {
  const environment = new MockActivityEnvironment({ attempt: 2, heartbeatDetails });
  return environment.run(() => Promise.resolve(checkPriorAttempt({ ...FIRST_LIFE, askedAt: 0 })));
}

test.each([undefined, { sent: false }])('a write that was surely not sent (%j) is sent', async (details) => {
  expect(await known(details)).toBeNull();
});

test.each([{ sent: true }, { state: 'sent' }, { sent: 'yes' }, 'sent', null, []])(
  'a mark (%j), that of another release too, is never overlooked',
  async (details) => {
    expect(await known(details)).toMatchObject({ kind: 'inDoubt' });
  },
);

test.each([
  [{ doubt: 'reset' }, 'the workflow was reset'],
  [{ runId: 'another', doubt: null }, 'the workflow was reset'],
  [{ doubt: 'repeated' }, 'Temporal started this run again'],
  [{ doubt: 'scheduled' }, 'this workflow id may have had a run before'],
] as const)('a write of the life %j asks, and says why as far as that is known', async (life, reason) => {
  const environment = new MockActivityEnvironment({});
  const asked = { askedAt: 0, life: { ...FIRST_LIFE.life, ...life }, confirmed: null };
  const check = () => Promise.resolve(checkPriorAttempt(asked));
  expect(await environment.run(check)).toMatchObject({ kind: 'inDoubt', reason: expect.stringContaining(reason) });
});
