import { expect, test } from 'vitest';
import { METADATA } from '../../src/agent-job/fields.js';
import { jobEnded } from '../../src/activities/webhooks/events.js';

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

test('what such texts of the upstream become in a body, every reader of JSON takes', () => {
  const { body } = jobEnded({
    ...{ workflowId: 'agent-job/p/k', runId: 'r', title: null, projectId: 'p', phase: null, batch: null, tags: [] },
    ...{ metadata: {}, status: null, outcome: 'completed', waitingFor: null, workflowStatus: 'COMPLETED' },
    ...{ jobId: `a${HALF}`, prLink: 'b\0', startedAt: '2026-01-01T00:00:00Z', endedAt: '2026-01-01T00:00:00Z' },
  });
  expect(JSON.parse(body)).toMatchObject({ data: { jobId: 'a\uFFFD', prLink: 'b\uFFFD' } });
  expect(body).not.toMatch(/\\u/);
});
