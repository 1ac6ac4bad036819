/**
 * What a run of tests says of itself: the files that took longest beside their last run on this machine, and how many
 * tests passed. Exits 1 where no test ran or one failed.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, relative } from 'node:path';

const LONGEST = 20;
/** The durations of the last run, in seconds by file: they outlive the clone in which the tests ran. */
const KEPT = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'agent-jobs', 'test-durations.json');

const { success, testResults = [], ...counts } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
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

/** Null where this machine kept none. */
function readKept() {
  try {
    return JSON.parse(readFileSync(KEPT, 'utf8'));
  } catch {
    return null;
  }
}

/** A machine that keeps nothing only has nothing to compare with. */
function keep(durations) {
  try {
    mkdirSync(dirname(KEPT), { recursive: true, mode: 0o700 });
    writeFileSync(KEPT, `${JSON.stringify(durations, null, 2)}\n`);
  } catch (error) {
    console.log(`The durations are not kept: ${error.message}`);
  }
}
