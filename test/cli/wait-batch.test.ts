import { afterEach, expect, test, vi } from 'vitest';
import { waitForBatch } from '../../src/cli/wait-batch.js';
import type { Session } from '../../src/cli/session.js';
import { TemporalUnavailableError } from '../../src/starter.js';

afterEach(() => {
  vi.restoreAllMocks();
  process.exitCode = undefined;
});

/** What a list shows at each look: nothing yet, an outage, or jobs by their status. */
type Look = 'nothing' | 'outage' | Record<string, string>;

/** Jobs whose list shows this, look by look; the last look lasts. No real server lags or fails on request. */
function sessionOf(looks: Look[]): { session: Session; asked: () => number } {
  let asked = 0;
  async function* list() {
    const look = looks[Math.min(asked++, looks.length - 1)] ?? 'nothing';
    if (look === 'outage') throw new TemporalUnavailableError('away');
    if (look === 'nothing') return;
    for (const [workflowId, workflowStatus] of Object.entries(look)) {
      const closedAt = workflowStatus === 'RUNNING' ? null : '2026-01-01T00:00:00.000Z';
      yield await Promise.resolve({ workflowId, workflowStatus, startedAt: '2026-01-01T00:00:00.000Z', closedAt });
    }
  }
  const handle = (workflowId: string) => ({ workflowId, result: () => Promise.resolve({ outcome: 'completed' }) });
  const session = { jobs: { list, handle }, globals: {}, signal: new AbortController().signal };
  return { session: session as unknown as Session, asked: () => asked };
}

function mute() {
  vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  return vi.spyOn(process.stdout, 'write').mockReturnValue(true);
}

test('a batch is waited for over an outage, and where its jobs are listed late', { timeout: 60_000 }, async () => {
  const printed = mute();
  const done = { a: 'COMPLETED' };
  const { session, asked } = sessionOf(['nothing', 'outage', { a: 'RUNNING' }, done, { ...done, b: 'COMPLETED' }]);
  await waitForBatch(session, 'batch', false);
  expect(printed.mock.calls.map(([line]) => line)).toEqual(['a  completed\n', 'b  completed\n']);
  expect(asked()).toBe(5);
  expect(process.exitCode).toBeUndefined();
});

test('a batch of which no job is listed after some looks is an error', { timeout: 60_000 }, async () => {
  mute();
  const { session, asked } = sessionOf(['nothing']);
  await expect(waitForBatch(session, 'batch', false)).rejects.toThrow('no job has the batch "batch"');
  expect(asked()).toBe(4);
});
