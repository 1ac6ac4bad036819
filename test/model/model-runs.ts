import { randomInt } from 'node:crypto';
import { inject } from 'vitest';

/** For fast-check: the number of runs and where they begin. */
interface ModelRuns {
  numRuns: number;
  seed: number;
}

declare module 'vitest' {
  export interface ProvidedContext {
    modelRuns?: ModelRuns;
  }
}

/** Few in `npm run test:all`, always from one seed; more in `npm run test:model`, from another seed each time. */
export const modelRuns: ModelRuns = inject('modelRuns') ?? { numRuns: 200, seed: 20_261_121 };

/** As many runs as ten seconds hold, from a new seed each time; null if the seed was given. */
export const freshRuns = inject('modelRuns')
  ? null
  : { seed: randomInt(2 ** 31), numRuns: 1_000_000, interruptAfterTimeLimit: 10_000 };
