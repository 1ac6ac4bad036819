import { expect, test } from 'vitest';
import { formatStuckJob } from '../../src/cli/attention.js';

const JOB = { workflowId: 'agent-job/p/k', workflowType: 'agentJob', projectId: 'p', phase: 'watching' } as const;

test('of a job that is pinned to a version without workers it is told which, and where the way out stands', () => {
  const pinned = { ...JOB, attempts: 0, since: null, failure: null, pinnedTo: 'agent-jobs:1.0.0' };
  const text = formatStuckJob(pinned, false);
  expect(text).toMatch(/no worker of version agent-jobs:1\.0\.0 runs, to which it is pinned/);
  expect(text).toMatch(/run workers of that version, or move it to the current one: docs\/upgrades\.md/);
  expect(text).not.toMatch(/tried|a bug/);
});

test('of a job whose task fails the failure is told, and no version', () => {
  const failing = { ...JOB, attempts: 4, since: '2026-01-01T00:00:00.000Z', failure: 'a bug of ours', pinnedTo: null };
  const text = formatStuckJob(failing, false);
  expect(text).toMatch(/tried 4 times/);
  expect(text).toMatch(/a bug of ours/);
  expect(text).not.toMatch(/version/);
});
