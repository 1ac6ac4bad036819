/** `npm run test:model -- --runs 15000 [--seed S]`: more of the model's runs than the gate has. */
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { startVitest } from 'vitest/node';

const { values } = parseArgs({ options: { runs: { type: 'string' }, seed: { type: 'string' } } });
const modelRuns = { numRuns: Number(values.runs ?? 5_000), seed: Number(values.seed ?? randomInt(2 ** 31)) };
console.log(`The scenarios are drawn from --seed ${modelRuns.seed}`);
await startVitest('test', ['test/model'], { watch: false, maxWorkers: 1, provide: { modelRuns } });
