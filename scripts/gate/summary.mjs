// Tells of a run of tests which files took longest, and how many tests passed. Exits 1 where none ran or one failed.
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';

const LONGEST = 10;
const { success, testResults = [], ...counts } = JSON.parse(readFileSync(process.argv[2], 'utf8'));

const durations = testResults.map(({ name, startTime, endTime }) => ({ name, seconds: (endTime - startTime) / 1000 }));
durations.sort((a, b) => b.seconds - a.seconds);
if (durations.length > 0) console.log('The files that took longest:');
for (const { name, seconds } of durations.slice(0, LONGEST)) {
  console.log(`${seconds.toFixed(1).padStart(7)} s  ${relative(process.cwd(), name)}`);
}
// A file that could not be loaded or set up has no test that failed, and is a failure.
const isUntested = ({ status, assertionResults }) =>
  status === 'failed' && !assertionResults.some((test) => test.status === 'failed');
const failed = counts.numFailedTests + testResults.filter(isUntested).length;
console.log(`${counts.numPassedTests} passed, ${failed} failed`);
if (!success || counts.numPassedTests === 0) process.exitCode = 1;
