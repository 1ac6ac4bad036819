import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runParameters, timeFor } from './model-runs.js';
import { perform } from './performance.js';
import { scenarios } from './scenario.js';
import { setUpStage, type Stage } from './stage.js';

let stage: Stage | undefined;
const parameters = runParameters('performed');
const timeout = timeFor(parameters.numRuns, 5_000);

beforeAll(async () => {
  if (parameters.numRuns > 0) stage = await setUpStage();
});
afterAll(async () => stage?.stop());

test.skipIf(parameters.numRuns === 0)(
  'on a real server agentJob keeps the contract in whatever order things happen',
  { timeout },
  async () => {
    let performed = 0;
    const property = fc.asyncProperty(scenarios, async (scenario) => {
      await perform(scenario, stage!);
      performed += 1;
    });
    // A slow machine performs fewer of them, and shrinks for less long.
    const interruptAfterTimeLimit = timeout / 2;
    await expect(fc.assert(property, { ...parameters, interruptAfterTimeLimit })).resolves.toBeUndefined();
    expect(performed).toBeGreaterThan(0);
  },
);
