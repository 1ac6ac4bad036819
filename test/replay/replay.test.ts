import { fileURLToPath } from 'node:url';
import { Worker } from '@temporalio/worker';
import { expect, test } from 'vitest';
import { shared } from '../support/shared.js';
import { EXPORT_SCENARIOS } from './export-scenarios.js';
import { recordedHistories } from './histories.js';
import { QUEUE_SCENARIOS } from './queue-scenarios.js';
import { RECURRING_SCENARIOS } from './recurring-scenarios.js';
import { SCENARIOS } from './scenarios.js';
import { VERSION_SCENARIOS } from './version-scenarios.js';

const histories = await recordedHistories();

test('there is a history of every scenario', () => {
  const recorded = new Set(histories.map(({ name }) => name.split('/')[1]));
  const scenarios = [SCENARIOS, EXPORT_SCENARIOS, RECURRING_SCENARIOS, QUEUE_SCENARIOS, VERSION_SCENARIOS].flatMap(
    (all) => Object.keys(all),
  );
  expect(scenarios.filter((scenario) => !recorded.has(scenario))).toEqual([]);
});

test.for(histories.map(({ name, workflowId, history }) => [name, workflowId, history] as const))(
  '%s replays: running jobs survive this version',
  async ([, workflowId, history], { expect }) => {
    const { path: codePath } = await shared('workflow-bundle');
    const replaying = Worker.runReplayHistory({ workflowBundle: { codePath } }, history, workflowId);
    await expect(replaying).resolves.toBeUndefined();
  },
);

test('a history that other code has made is refused', async () => {
  const workflowsPath = fileURLToPath(new URL('../support/echo-workflow.ts', import.meta.url));
  const [first] = histories;
  await expect(Worker.runReplayHistory({ workflowsPath }, first?.history, 'other-code')).rejects.toThrow();
});
