/**
 * `summary.mjs RESULTS KEPT`: what a run of tests says of itself. It prints the files that took longest, beside the
 * durations in the file KEPT of the last run, and how many tests passed. Exits 1 if no test ran or one failed.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, relative } from 'node:path';

const LONGEST = 20;
const [results, kept] = process.argv.slice(2);

const { success, testResults = [], ...counts } = JSON.parse(readFileSync(results, 'utf8'));
const seconds = Object.fromEntries(
  testResults
    .map(({ name, startTime, endTime }) => [relative(process.cwd(), name), (endTime - startTime) / 1000])
    .sort(([, a], [, b]) => b - a),
);
printDurations(seconds, readKept());
keep(seconds);
// A file that could not be loaded or set up has no test that failed, and is a failure.
const isUntested = ({ status, assertionResults }) =>
  status === 'failed' && !assertionResults.some((test) => test.status === 'failed');
const failed = counts.numFailedTests + testResults.filter(isUntested).length;
console.log(`${counts.numPassedTests} passed, ${failed} failed`);
if (!success || counts.numPassedTests === 0) process.exitCode = 1;

function printDurations(now, before) {
  const total = (all) => Object.values(all).reduce((sum, each) => sum + each, 0);
  const row = (text, [present, last]) =>
    console.log(`${present.toFixed(1).padStart(8)} ${(last?.toFixed(1) ?? '-').padStart(8)}  ${text}`);
  console.log(`The ${LONGEST} test files that took longest, in seconds: now, in the last run`);
  for (const [file, present] of Object.entries(now).slice(0, LONGEST)) row(file, [present, before?.[file]]);
  row(`all ${Object.keys(now).length} files`, [total(now), before && total(before)]);
}

/** Null if this machine kept none. */
function readKept() {
  try {
    return JSON.parse(readFileSync(kept, 'utf8'));
  } catch {
    return null;
  }
}

/** A machine that keeps nothing only has nothing to compare with. */
function keep(durations) {
  try {
    mkdirSync(dirname(kept), { recursive: true, mode: 0o700 });
    writeFileSync(kept, `${JSON.stringify(durations, null, 2)}\n`);
  } catch (error) {
    console.log(`The durations are not kept: ${error.message}`);
  }
}
