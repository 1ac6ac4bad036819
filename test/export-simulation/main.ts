/**
 * `npm run test:export-simulation [count] [seed]`: many scheduled runs, and what became of their days. Exits with 1 if
 * a published day is wrong and not marked, or a missed one is not made up for.
 */
import { simulateRuns } from './simulation.js';

const [count = '10000', seed = '1'] = process.argv.slice(2);
const figures = await simulateRuns(Number(seed), Number(count));
console.log(JSON.stringify(figures, null, 2));
const { worse, unmarkedWrong, notMadeUp, stillMarked, settledDays } = figures;
if (worse.length + unmarkedWrong.length + notMadeUp.length > 0 || stillMarked > settledDays / 100) process.exitCode = 1;
