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

/** Always the same ones in `npm run test:all`; more in `npm run test:model`, from another seed each time. */
export const modelRuns: ModelRuns = inject('modelRuns') ?? { numRuns: 1_000, seed: 20_261_121 };
