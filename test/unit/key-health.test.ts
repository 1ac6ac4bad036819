import { beforeEach, describe, expect, test } from 'vitest';
import { KeyHealth } from '../../src/activities/agent-job/key-health.js';
import { noMetrics } from '../support/no-metrics.js';
import { ReadFailedError, RejectedError, type UpstreamError } from '../../src/upstream/errors.js';
import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import { inDoubt, rejected, unauthorized } from '../support/outcomes.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';

const MINUTE = 60_000;
const REASON = 'upstream answered 401';
const FORBIDDEN = 'upstream answered 403';
const JOB = { projectId: 'p', jobId: 'j' };
const VISITORS = { projectId: 'p', dateFrom: '2026-01-01', dateTo: '2026-01-02', limit: 1, offset: 0 };

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
const forbidden = (): WriteOutcome => ({ kind: 'unauthorized', reason: FORBIDDEN, isForbidden: true });
const readForbidden = () => new ReadFailedError(FORBIDDEN, 403);
const create = (outcome?: WriteOutcome) => {
  if (outcome) upstream.createFaults.push(outcome);
  return health.notedUpstream.createJob({ projectId: 'p', prompt: 'x' });
};
const read = (fault?: UpstreamError) => {
  if (fault) upstream.readFaults.push(fault);
  return health.notedUpstream.getJob(JOB).catch(() => {});
};
/** What the writes wait for, and what the worker shows. */
const known = () => [health.refusalOf('p'), health.refusedProjects];

test('a refused write makes the writes of its project wait, and an accepted one lets them go', async () => {
  await create(refused());
  expect([known(), health.refusalOf('q')]).toEqual([[REASON, ['p']], null]);
  await create();
  expect([known(), changes]).toEqual([
    [null, []],
    [REASON, null],
  ]);
});

test('each refused request is counted, and each change is reported once', async () => {
  await create(refused());
  await create(refused());
  await read(readRefused());
  expect([refusals, changes]).toEqual([['create', 'create', 'get'], [REASON]]);
});

test('a request without a key counts as refused, one without an answer does not', async () => {
  await read(new ReadFailedError('no connection'));
  expect(health.refusedProjects).toEqual([]);
  upstream.version = null;
  await read(new ReadFailedError('ADMIN_API_KEY is not set'));
  expect(health.refusalOf('p')).toBe('ADMIN_API_KEY is not set');
});

test('reads that are refused between others that are accepted put no try off, and undo none', async () => {
  for (; now < MINUTE; now += MINUTE / 6) {
    await read(readRefused());
    await read();
  }
  expect(health.refusalOf('p')).toBe(REASON);
  await read(readRefused());
  expect(await health.refusalNow('p', null)).toBeNull();
  await read(readRefused());
  expect(await health.refusalNow('p', null)).toBeNull();
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

  test.each([
    ['that is accepted, as an answer shows that there is no such job', 404, [null, []]],
    ['that is refused too', 401, [REASON, ['p']]],
  ])('another key %s is tried at once, and once', async (_, status, expected) => {
    upstream.version = 'new';
    const fault = status === 401 ? readRefused() : new RejectedError('upstream answered 404', status, '');
    upstream.readFaults.push(fault);
    await asked();
    await asked();
    expect([upstream.reads, known()]).toEqual([1, expected]);
  });

  test('the same key that a read shows as accepted lets writes go, and is called accepted when one was', async () => {
    now = MINUTE;
    await asked();
    expect(known()).toEqual([null, ['p']]);
    await create(inDoubt('no answer'));
    expect(known()).toEqual([null, ['p']]);
    await create(rejected(400, ''));
    expect(known()).toEqual([null, []]);
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

  test('ten minutes of accepted reads clear it, and the first one with another key', async () => {
    now = 10 * MINUTE - 1;
    await read();
    expect(known()).toEqual([REASON, ['p']]);
    now += 1;
    await read();
    expect(known()).toEqual([null, []]);
    await read(readRefused());
    expect(known()).toEqual([REASON, ['p']]);
    upstream.version = 'new';
    await read();
    expect(known()).toEqual([null, []]);
  });
});

describe('a 403', () => {
  test('to a write makes the writes of its project wait, but within a minute of one that was accepted', async () => {
    await create(forbidden());
    expect(health.refusalOf('p')).toBe(FORBIDDEN);
    await create();
    now = MINUTE - 1;
    await create(forbidden());
    expect([health.refusalOf('p'), refusals]).toEqual([null, ['create', 'create']]);
    now = MINUTE;
    await create(forbidden());
    expect(health.refusalOf('p')).toBe(FORBIDDEN);
  });

  test('to reads says nothing of writes: one that tries the key lets a write show, once a minute', async () => {
    await read(readForbidden());
    expect([health.refusalOf('p'), refusals]).toEqual([null, ['get']]);
    await create(forbidden());
    for (const minute of [1, 2]) {
      now = minute * MINUTE;
      await read(readForbidden());
      upstream.readFaults.push(readForbidden());
      expect(await health.refusalNow('p', null)).toBeNull();
      await create(forbidden());
      expect(await health.refusalNow('p', null)).toBe(FORBIDDEN);
      expect(upstream.reads).toBe(1 + 2 * minute);
    }
  });
});

test.each([readRefused(), new RejectedError(FORBIDDEN, 403, '')])(
  'an export that is refused (%s) is counted, and says nothing of jobs',
  async (fault) => {
    upstream.getVisitors = () => Promise.reject(fault);
    await health.notedUpstream.getVisitors(VISITORS).catch(() => {});
    expect([health.refusalOf('p'), refusals]).toEqual([null, ['visitors']]);
    await create(refused());
    now = MINUTE;
    await health.notedUpstream.getVisitors(VISITORS).catch(() => {});
    // It puts no try off.
    expect(await health.refusalNow('p', null)).toBeNull();
    expect(upstream.reads).toBe(1);
  },
);
