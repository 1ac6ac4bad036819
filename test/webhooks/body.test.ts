import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { expect, test } from 'vitest';
import { METADATA } from '../../src/agent-job/fields.js';
import { exportEnded, jobEnded } from '../../src/activities/webhooks/events.js';
import type { JobSummary } from '../../src/client/agent-job/list.js';

const HALF = '\uD83D';

test.each([{ trace: `x${HALF}` }, { trace: 'x\0' }, { [`x${HALF}`]: 'x' }, { 'x\0': 'x' }])(
  'metadata that many readers of JSON refuse are no input: %j',
  (metadata) => {
    expect(() => METADATA.check(metadata, 'metadata')).toThrow('metadata must be well-formed Unicode without NUL');
  },
);

test('metadata may hold any other text', () => {
  const metadata = { 'träce\n': '\u{1F41B}\t\u0001' };
  expect(METADATA.check(metadata, 'metadata')).toEqual(metadata);
});

const ENDED: JobSummary = {
  ...{ workflowId: 'agent-job/p/k', runId: 'r', title: null, projectId: 'p', phase: null, batch: null, tags: [] },
  ...{ metadata: {}, status: null, outcome: 'completed', waitingFor: null, workflowStatus: 'COMPLETED' },
  ...{ jobId: 'j', prLink: null, startedAt: '2026-01-01T00:00:00Z', endedAt: '2026-01-01T00:00:00Z' },
};

test('what such texts of the upstream become in a body, every reader of JSON takes', () => {
  const { body } = jobEnded({ ...ENDED, jobId: `a${HALF}`, prLink: 'b\0' });
  expect(JSON.parse(body)).toMatchObject({ data: { jobId: 'a\uFFFD', prLink: 'b\uFFFD' } });
  expect(body).not.toMatch(/\\u/);
});

test('each search gives an event the same id and body, and the end of another run another id', () => {
  const event = jobEnded(ENDED);
  expect(jobEnded({ ...ENDED })).toEqual(event);
  expect(jobEnded({ ...ENDED, runId: 'r2' }).id).not.toBe(event.id);
});

test.each([
  [20, 100, 20],
  [30, 100, 20],
  [20, 1_000, 13],
  [3, 30_000, 0],
])('an event of %i snapshots with addresses of %i bytes keeps to 20 KiB, and has %i', async (count, bytes, sent) => {
  const one = { snapshotId: 's'.repeat(64), dateFrom: '2026-01-01', dateTo: '2026-01-02', location: 'x'.repeat(bytes) };
  const result = { snapshots: Array.from({ length: count }, () => ({ ...one, consistent: true, unchanged: false })) };
  const within = (_: unknown, call: () => unknown) => call();
  const client = {
    withDeadline: within,
    withAbortSignal: within,
    options: {},
    workflow: { result: async () => result },
  };
  const run = { workflowId: 'visitor-export/p-2026-01-01T00:00:00Z', runId: 'r', closeTime: new Date(0) };
  const { body } = await exportEnded(client as unknown as Client, run as WorkflowExecutionInfo);
  expect(Buffer.byteLength(body)).toBeLessThanOrEqual(20 * 1_024);
  const { data } = JSON.parse(body) as { data: { snapshots: unknown[]; snapshotsLeftOut?: number } };
  expect([data.snapshots.length, data.snapshotsLeftOut ?? 0]).toEqual([sent, count - sent]);
});
