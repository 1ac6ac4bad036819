/**
 * `npm run test:export-simulation [count] [seed]`: many scheduled runs, and what became of their days. Exits with 1 if
 * a published day is wrong and not marked.
 */
import { simulateRuns } from './simulation.js';

const [count = '10000', seed = '1'] = process.argv.slice(2);
const figures = await simulateRuns(Number(seed), Number(count));
console.log(JSON.stringify(figures, null, 2));
if (figures.worse.length > 0 || figures.unmarkedWrong.length > 0 || figures.stillMarked > figures.settledDays / 100)
  process.exitCode = 1;
