import { inject } from 'vitest';

/** How many runs to make: few in `npm test`, more in `npm run model`. */
export interface ModelRuns {
  /** Rehearsals on the simulated server. */
  rehearsed: number;
  /** Scenarios on a real server. */
  performed: number;
  /** Where a failed run began; null for a new one. */
  seed: number | null;
}

declare module 'vitest' {
  export interface ProvidedContext {
    modelRuns?: ModelRuns;
  }
}

const FEW: ModelRuns = { rehearsed: 200, performed: 12, seed: null };

export function modelRuns(): ModelRuns {
  return inject('modelRuns') ?? FEW;
}

/** For fast-check: the number of runs and where they begin. */
export function runParameters(kind: 'rehearsed' | 'performed'): { numRuns: number; seed?: number } {
  const { [kind]: numRuns, seed } = modelRuns();
  return seed === null ? { numRuns } : { numRuns, seed };
}

/** Time for so many runs, in milliseconds. */
export function timeFor(runs: number, msEach: number): number {
  return 30_000 + runs * msEach;
}
