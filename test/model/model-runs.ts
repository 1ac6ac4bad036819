import { randomInt } from 'node:crypto';
import { inject } from 'vitest';

/** How many runs to make: few in `npm run test:all`, more in `npm run test:model`. */
interface ModelRuns {
  /** Runs on the simulated server. */
  simulated: number;
  /** Scenarios on a real server. */
  realServer: number;
  /** Seed of the scenarios: the same one each time in `npm run test:all`, another one in each `npm run test:model`. */
  seed: number;
}

declare module 'vitest' {
  export interface ProvidedContext {
    modelRuns?: ModelRuns;
  }
}

const FEW: ModelRuns = { simulated: 200, realServer: 12, seed: 20_261_121 };

function modelRuns(): ModelRuns {
  return inject('modelRuns') ?? FEW;
}

/** For fast-check: the number of runs and where they begin. */
export function runParameters(kind: 'simulated' | 'realServer'): { numRuns: number; seed: number } {
  const { [kind]: numRuns, seed } = modelRuns();
  return { numRuns, seed };
}

/** For fast-check: as many runs as 20 seconds hold, from a new seed each time; null where the seed was given. */
export function freshParameters(): { seed: number; numRuns: number; interruptAfterTimeLimit: number } | null {
  if (inject('modelRuns')) return null;
  return { seed: randomInt(2 ** 31), numRuns: 1_000_000, interruptAfterTimeLimit: 20_000 };
}

/** Time for so many runs, in milliseconds. */
export function timeFor(runs: number, msEach: number): number {
  return 30_000 + runs * msEach;
}
