import type * as workflow from '@temporalio/workflow';
import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { agentJob } from '../../src/workflows/index.js';
import { rehearse } from './rehearsal.js';
import { scenarios, type Scenario } from './scenario.js';

vi.mock('@temporalio/workflow', async (original) => ({
  ...(await original<typeof workflow>()),
  ...(await import('./simulation.js')).simulatedWorkflow,
}));

const RUNS = 200;

test('agentJob keeps the contract in whatever order things happen', { timeout: 120_000 }, async () => {
  const property = fc.asyncProperty(scenarios, (scenario) => rehearse(scenario, agentJob));
  await expect(fc.assert(property, { numRuns: RUNS })).resolves.toBeUndefined();
});

const PLAIN: Scenario = {
  isAttached: false,
  usedFollowUpIds: [],
  deadline: 60_000,
  polling: { min: 1_000, max: 1_000, ratio: 0 },
  onUnknownOutcome: 'ask',
  decideWithin: null,
  settle: 0,
  linger: 0,
  creates: [],
  messages: [],
  reads: [],
  lastly: 'completed',
  actions: [],
  decisions: [],
  tasksPerRun: 1e9,
  isBatching: false,
};

const FOUND: Record<string, Partial<Scenario>> = {
  'a follow-up that waits behind an unknown create stays queued': {
    creates: [{ kind: 'unknown', takesMs: 0 }],
    actions: [{ kind: 'update', id: 'a', at: 0 }],
    decisions: [{ action: 'retry', afterMs: 500 }],
  },
  'a Retry-After that comes together with continue-as-new is obeyed': {
    deadline: 0,
    messages: [{ kind: 'unknown', takesMs: 500 }],
    reads: [
      { kind: 'failed', takesMs: 500, times: 1 },
      { kind: 'wait', retryAfterMs: 7_200_000, takesMs: 0, times: 1 },
    ],
    actions: [{ kind: 'signal', id: 'a', at: 0 }],
    tasksPerRun: 4,
  },
};

test.each(Object.keys(FOUND))('%s', async (title) => {
  await expect(rehearse({ ...PLAIN, ...FOUND[title] }, agentJob)).resolves.toBeUndefined();
});
