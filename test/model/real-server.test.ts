import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runParameters, timeFor } from './model-runs.js';
import { runOnRealServer } from './real-server-runner.js';
import { scenarios } from './scenario.js';
import { startRealServer, type RealServer } from './real-server.js';

let server: RealServer | undefined;
const parameters = runParameters('realServer');
const timeout = timeFor(parameters.numRuns, 5_000);

beforeAll(async () => {
  if (parameters.numRuns > 0) server = await startRealServer();
});
afterAll(async () => server?.stop());

test.skipIf(parameters.numRuns === 0)(
  'on a real server agentJob keeps the contract in whatever order things happen',
  { timeout },
  async () => {
    let realServer = 0;
    const property = fc.asyncProperty(scenarios, async (scenario) => {
      await runOnRealServer(scenario, server!);
      realServer += 1;
    });
    // A slow machine performs fewer of them, and shrinks for less long.
    const interruptAfterTimeLimit = timeout / 2;
    await expect(fc.assert(property, { ...parameters, interruptAfterTimeLimit })).resolves.toBeUndefined();
    expect(realServer).toBeGreaterThan(0);
  },
);
