import { expect, test } from 'vitest';
import { LOG_LINE } from '../../src/agent-job/labels.js';
import { readTraces } from '../../src/cli/reconcile.js';

const CREATED = { msg: LOG_LINE.taken, time: '2026-01-02T10:00:00.000Z', write: 'create', jobId: 'job-1' };
const CANCELED = { msg: LOG_LINE.ended, time: '2026-01-02T11:00:00.000Z', outcome: 'Canceled', jobId: 'job-1' };

async function isCanceledAfter(...entries: object[]): Promise<boolean | undefined> {
  async function* lines() {
    for (const [index, entry] of entries.entries()) {
      yield { number: index + 1, text: JSON.stringify({ workflowId: 'w', projectId: 'p', ...entry }) };
    }
  }
  const { jobs } = await readTraces(lines(), { namespace: 'default', since: undefined });
  return jobs[0]?.isCanceled;
}

test('whose log comes first does not matter: a job that was cancelled last is a cancelled one', async () => {
  expect(await isCanceledAfter(CREATED, CANCELED)).toBe(true);
  expect(await isCanceledAfter(CANCELED, CREATED)).toBe(true);
});

test('a job that went on after its cancellation is no cancelled one, in whatever order the logs come', async () => {
  const later = { ...CREATED, time: '2026-01-02T12:00:00.000Z' };
  expect(await isCanceledAfter(CANCELED, later)).toBe(false);
  expect(await isCanceledAfter(later, CANCELED)).toBe(false);
});
