/** `npm run test:model -- --runs 5000 [--scenarios 200] [--seed S]`: more of the model's runs than the gate has. */
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { startVitest } from 'vitest/node';

const { values } = parseArgs({
  options: { runs: { type: 'string' }, scenarios: { type: 'string' }, seed: { type: 'string' } },
});
const number = (text: string | undefined) => (text === undefined ? null : Number(text));
const modelRuns = {
  simulated: number(values.runs) ?? 5_000,
  realServer: number(values.scenarios) ?? 0,
  seed: number(values.seed) ?? randomInt(2 ** 31),
};
console.log(`The scenarios are drawn from --seed ${modelRuns.seed}`);
await startVitest('test', ['test/model'], { watch: false, maxWorkers: 1, provide: { modelRuns } });
