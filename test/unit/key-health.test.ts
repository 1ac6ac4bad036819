import { beforeEach, describe, expect, test } from 'vitest';
import { KeyHealth } from '../../src/activities/agent-job/key-health.js';
import { noMetrics } from '../support/no-metrics.js';
import { ReadFailedError, RejectedError, type UpstreamError } from '../../src/upstream/errors.js';
import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import { inDoubt, rejected, unauthorized } from '../support/outcomes.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';

const MINUTE = 60_000;
const REASON = 'upstream answered 401';
const JOB = { projectId: 'p', jobId: 'j' };

class Upstream extends ScriptedUpstream {
  version: string | null = 'old';
  override keyVersion(): Promise<string | null> {
    return Promise.resolve(this.version);
  }
}

let now: number;
let upstream: Upstream;
let health: KeyHealth;
let changes: (string | null)[];
let refusals: string[];

beforeEach(() => {
  now = 0;
  upstream = new Upstream();
  changes = [];
  refusals = [];
  health = new KeyHealth({
    upstream,
    metrics: { ...noMetrics, keyRefused: (operation) => void refusals.push(operation) },
    onChange: (_, reason) => void changes.push(reason),
    now: () => now,
  });
});

const refused = () => unauthorized(REASON);
const readRefused = () => new ReadFailedError(REASON, 401);
const create = (outcome?: WriteOutcome) => {
  if (outcome) upstream.createFaults.push(outcome);
  return health.upstream.createJob({ projectId: 'p', prompt: 'x' });
};
const read = (fault?: UpstreamError) => {
  if (fault) upstream.readFaults.push(fault);
  return health.upstream.getJob(JOB).catch(() => {});
};

test('a refused write makes the writes of its project wait, and an accepted one lets them go', async () => {
  expect(health.refusalOf('p')).toBeNull();
  await create(refused());
  expect([health.refusalOf('p'), health.refusalOf('q'), health.refusedProjects]).toEqual([REASON, null, ['p']]);
  await create();
  expect([health.refusalOf('p'), health.refusedProjects]).toEqual([null, []]);
  expect(changes).toEqual([REASON, null]);
});

test('each refused request is counted, each change told once', async () => {
  await create(refused());
  await create(refused());
  await read(readRefused());
  expect(refusals).toEqual(['create', 'create', 'get']);
  expect(changes).toEqual([REASON]);
});

test('a request without a key counts as refused, one without an answer does not', async () => {
  await read(new ReadFailedError('no connection'));
  expect(health.refusedProjects).toEqual([]);
  upstream.version = null;
  await read(new ReadFailedError('ADMIN_API_KEY is not set'));
  expect(health.refusalOf('p')).toBe('ADMIN_API_KEY is not set');
});

describe('while a key is refused', () => {
  beforeEach(() => create(refused()));

  const asked = async () => Promise.all(Array.from({ length: 200 }, () => health.refusalNow('p', null)));

  test('it is tried once a minute, however many ask', async () => {
    for (const [minute, reads] of [
      [0.9, 0],
      [1, 1],
      [1.9, 1],
      [2, 2],
    ] as const) {
      now = minute * MINUTE;
      upstream.readFaults.push(readRefused());
      expect(new Set(await asked())).toEqual(new Set([REASON]));
      await asked();
      expect(upstream.reads).toBe(reads);
      upstream.readFaults.length = 0;
    }
  });

  test('another key is tried at once, and an answer that there is no such job shows that it is accepted', async () => {
    upstream.version = 'new';
    upstream.readFaults.push(new RejectedError('upstream answered 404', 404, ''));
    await asked();
    expect(upstream.reads).toBe(1);
    expect([health.refusalOf('p'), health.refusedProjects]).toEqual([null, []]);
  });

  test('another key that is refused too is not tried again before its minute', async () => {
    upstream.version = 'new';
    upstream.readFaults.push(readRefused());
    await asked();
    await asked();
    expect([upstream.reads, health.refusalOf('p')]).toEqual([1, REASON]);
  });

  test('the same key that a read shows as accepted lets writes go, and is called accepted when one was', async () => {
    now = MINUTE;
    await asked();
    expect([health.refusalOf('p'), health.refusedProjects]).toEqual([null, ['p']]);
    await create(inDoubt('no answer'));
    expect(health.refusedProjects).toEqual(['p']);
    await create(rejected(400, ''));
    expect(health.refusedProjects).toEqual([]);
  });

  test.each([new ReadFailedError('no answer'), new ReadFailedError('429', 429), new ReadFailedError('503', 503)])(
    'a try that shows nothing (%s) changes nothing',
    async (fault) => {
      now = MINUTE;
      upstream.readFaults.push(fault);
      await asked();
      expect([upstream.reads, health.refusalOf('p')]).toEqual([1, REASON]);
    },
  );

  test('reads that go on beside it let one write go in a minute, and count alone after ten', async () => {
    await read();
    expect(health.refusalOf('p')).toBe(REASON);
    now = MINUTE;
    await read();
    expect([health.refusalOf('p'), health.refusedProjects]).toEqual([null, ['p']]);
    now = 10 * MINUTE;
    await read();
    expect(health.refusedProjects).toEqual([]);
  });
});

describe('a 403', () => {
  const FORBIDDEN = 'upstream answered 403';
  const forbidden = (): WriteOutcome => ({ kind: 'unauthorized', reason: FORBIDDEN, isForbidden: true });
  const readForbidden = () => new ReadFailedError(FORBIDDEN, 403);

  test('to a write or a read makes the writes of its project wait', async () => {
    await create(forbidden());
    expect(health.refusalOf('p')).toBe(FORBIDDEN);
    await create();
    expect(health.refusalOf('p')).toBeNull();
    await read(readForbidden());
    expect(health.refusalOf('p')).toBe(FORBIDDEN);
  });

  test('to one call within a minute of another that was accepted makes no other wait', async () => {
    await create();
    await read();
    now = MINUTE - 1;
    await create(forbidden());
    await read(readForbidden());
    expect([health.refusalOf('p'), changes, refusals]).toEqual([null, [], ['create', 'get']]);
    now = MINUTE;
    await create(forbidden());
    expect(health.refusalOf('p')).toBe(FORBIDDEN);
  });

  test('to the read that tries the key lets a write show, once a minute', async () => {
    await create(forbidden());
    for (const minute of [1, 2]) {
      now = minute * MINUTE;
      upstream.readFaults.push(readForbidden());
      expect(await health.refusalNow('p', null)).toBeNull();
      await create(forbidden());
      expect(await health.refusalNow('p', null)).toBe(FORBIDDEN);
      expect(upstream.reads).toBe(minute);
    }
  });

  test('to reads, again and again, puts no write off for longer than a minute', async () => {
    await read(readForbidden());
    for (let half = 1; half <= 2; half++) {
      now = (half * MINUTE) / 2;
      await read(readForbidden());
    }
    upstream.readFaults.push(readForbidden());
    expect(await health.refusalNow('p', null)).toBeNull();
    await read(readForbidden());
    expect(health.refusalOf('p')).toBeNull();
  });

  test('to an export says nothing of jobs', async () => {
    upstream.getVisitors = () => Promise.reject(new RejectedError(FORBIDDEN, 403, ''));
    const window = { dateFrom: '2026-01-01', dateTo: '2026-01-02', limit: 1, offset: 0 };
    await health.upstream.getVisitors({ projectId: 'p', ...window }).catch(() => {});
    expect([health.refusalOf('p'), refusals]).toEqual([null, []]);
    await create(refused());
    await health.upstream.getVisitors({ projectId: 'p', ...window }).catch(() => {});
    expect(health.refusalOf('p')).toBe(REASON);
  });
});

describe('an export that is refused', () => {
  const exportRefused = () =>
    health.upstream
      .getVisitors({ projectId: 'p', dateFrom: '2026-01-01', dateTo: '2026-01-02', limit: 1, offset: 0 })
      .catch(() => {});
  const visitors = () => Promise.reject(readRefused());

  test('again and again, makes no write wait whose key a job’s read shows as accepted', async () => {
    upstream.getVisitors = visitors;
    await exportRefused();
    expect(health.refusalOf('p')).toBe(REASON);
    expect(await health.refusalNow('p', null)).toBeNull();
    await exportRefused();
    now += MINUTE / 2;
    await exportRefused();
    expect(await health.refusalNow('p', null)).toBeNull();
    expect([upstream.reads, health.refusedProjects]).toEqual([2, []]);
  });

  test('puts off no try of a key that a write showed as refused', async () => {
    upstream.getVisitors = visitors;
    await create(refused());
    for (let i = 0; i < 3; i += 1) {
      now += MINUTE / 3;
      await exportRefused();
    }
    expect(await health.refusalNow('p', null)).toBeNull();
    expect(upstream.reads).toBe(1);
  });
});
