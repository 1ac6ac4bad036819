import { fileURLToPath } from 'node:url';
import { Worker } from '@temporalio/worker';
import { expect, test } from 'vitest';
import { shared } from '../support/shared.js';
import { recordedHistories } from './histories.js';
import { SCENARIOS } from './scenarios.js';

const histories = await recordedHistories();

test('there is a history of every scenario', () => {
  const recorded = new Set(histories.map(({ name }) => name.split('/')[1]));
  expect(Object.keys(SCENARIOS).filter((scenario) => !recorded.has(scenario))).toEqual([]);
});

test.for(histories.map(({ name, history }) => [name, history] as const))(
  '%s replays: running jobs survive this version',
  async ([name, history]) => {
    const { path: codePath } = await shared('workflow-bundle');
    await Worker.runReplayHistory({ workflowBundle: { codePath } }, history, `replay-${name}`);
  },
);

test('a history that other code has made is refused', async () => {
  const workflowsPath = fileURLToPath(new URL('../support/echo-workflow.ts', import.meta.url));
  const [first] = histories;
  await expect(Worker.runReplayHistory({ workflowsPath }, first?.history, 'replay-wrong-code')).rejects.toThrow();
});
