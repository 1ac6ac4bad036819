/**
 * Mutation test: applies each mutant to a copy of the repository and shows that its named test fails. Run it by
 * `npm run test:mutation`, or by `npm run test:mutation -- WORD…` for the mutants whose name has one of the words.
 */
import { spawn } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MUTANTS, type Mutant } from './mutants.js';

const root = fileURLToPath(new URL('../../', import.meta.url));
const COPIED = [
  'src',
  'test',
  'docs',
  'scripts',
  'package.json',
  'tsconfig.json',
  'tsconfig.build.json',
  'vitest.config.ts',
];
/** What a mutant no longer uses does not keep it from being tested. */
const TSC = [
  'node_modules/.bin/tsc',
  '-p',
  'tsconfig.build.json',
  '--noUnusedLocals',
  'false',
  '--noUnusedParameters',
  'false',
];
const BUNDLE = ['scripts/bundle-workflows.mjs'];
const VITEST = ['node_modules/vitest/vitest.mjs', 'run', '--reporter=json'];
/** The folders whose tests run built programs; the others bundle the workflows from the sources. */
const RUNS_BUILT_PROGRAMS = /^test\/(?:chaos|worker|e2e)\//;
/** Mutants tested at the same time, each in a copy of its own: their tests mostly wait. */
const COPIES = 3;
/** The slowest named test takes three minutes; a mutant may make it wait for all its time limits. */
const MAX_TEST_MS = 6 * 60_000;

interface Report {
  testResults: { name: string; assertionResults: { status: string; fullName: string }[] }[];
}

interface Verdict {
  mutant: Mutant;
  /** `notBuilt`: a mutant that does not compile proves nothing, so it fails the run like one that survived. */
  result: 'caught' | 'survived' | 'notBuilt';
  seconds: number;
}

async function copyRepository(): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), 'agent-jobs-mutant-'));
  for (const path of COPIED) await cp(join(root, path), join(copy, path), { recursive: true });
  await symlink(join(root, 'node_modules'), join(copy, 'node_modules'));
  await build(copy, 'the unchanged sources', true);
  return copy;
}

/** A mutant that does not compile would fail every test, so it proves nothing. */
async function build(copy: string, what: string, isBundled: boolean): Promise<void> {
  if ((await run(copy, TSC)).status !== 0) throw new Error(`${what}: does not compile`);
  if (isBundled && (await run(copy, BUNDLE)).status !== 0) throw new Error(`${what}: its workflows do not bundle`);
}

/** Throws unless each named test exists and passes without a mutant. */
async function checkUnchanged(copy: string, mutants: readonly Mutant[]): Promise<void> {
  const files = new Set(mutants.map(({ test }) => test));
  const titles = new Set(mutants.map(({ title }) => title));
  const { stdout } = await run(copy, [...VITEST, ...files, '-t', [...titles].join('|')], MAX_TEST_MS * files.size);
  const { testResults } = JSON.parse(stdout.slice(stdout.indexOf('{"numTotalTestSuites"'))) as Report;
  for (const { test, title } of mutants) {
    const results = testResults.find(({ name }) => name.endsWith(test))?.assertionResults ?? [];
    const named = results.filter(({ fullName }) => new RegExp(title).test(fullName));
    if (named.length === 0) throw new Error(`${test} has no test "${title}"`);
    if (named.some(({ status }) => status !== 'passed')) throw new Error(`${test}: ${title}: fails without any mutant`);
  }
}

async function testMutant(copy: string, mutant: Mutant): Promise<Verdict> {
  const { name, file, find, replace } = mutant;
  const startedAt = Date.now();
  const path = join(copy, file);
  const text = await readFile(path, 'utf8');
  if (text.split(find).length !== 2) throw new Error(`${name}: ${file} does not hold its text exactly once`);
  const mutated = text.replace(find, () => replace);
  await writeFile(path, mutated);
  try {
    const result = await verdictOf(copy, mutant);
    return { mutant, result, seconds: (Date.now() - startedAt) / 1_000 };
  } finally {
    await writeFile(path, text);
  }
}

async function verdictOf(copy: string, { name, test, title }: Mutant): Promise<Verdict['result']> {
  try {
    await build(copy, name, RUNS_BUILT_PROGRAMS.test(test));
  } catch (error) {
    console.log((error as Error).message);
    return 'notBuilt';
  }
  const { status } = await run(copy, [...VITEST, test, '-t', title, '--bail=1', '--maxWorkers=1'], MAX_TEST_MS);
  return status === 0 ? 'survived' : 'caught';
}

/** Runs a program of Node's; the status is null if the time limit ended it. */
function run(cwd: string, args: string[], timeout = 120_000): Promise<{ status: number | null; stdout: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { cwd, timeout, stdio: ['ignore', 'pipe', 'ignore'] });
    let stdout = '';
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.once('error', reject);
    child.once('close', (status) => resolve({ status, stdout }));
  });
}

function row({ mutant: { name, test, title }, result, seconds }: Verdict): string {
  return `${result.padEnd(8)}  ${seconds.toFixed(0).padStart(4)} s  ${name}  (${test}: ${title})`;
}

async function main(words: readonly string[]): Promise<void> {
  const mutants = MUTANTS.filter(({ name }) => words.length === 0 || words.some((word) => name.includes(word)));
  const startedAt = Date.now();
  const copies = await Promise.all(Array.from({ length: Math.min(COPIES, mutants.length) }, copyRepository));
  const verdicts: Verdict[] = [];
  try {
    if (copies[0] !== undefined) await checkUnchanged(copies[0], mutants);
    console.log(`${mutants.length} mutants; their tests pass without them`);
    const waiting = mutants.values();
    const testAll = async (copy: string) => {
      for (const mutant of waiting) {
        const verdict = await testMutant(copy, mutant);
        verdicts.push(verdict);
        console.log(`${verdicts.length}/${mutants.length}  ${row(verdict)}`);
      }
    };
    await Promise.all(copies.map(testAll));
  } finally {
    await Promise.all(copies.map((copy) => rm(copy, { recursive: true, force: true })));
  }
  const notCaught = verdicts.filter(({ result }) => result !== 'caught');
  const slowestFirst = verdicts.toSorted((a, b) => b.seconds - a.seconds);
  console.log(['', ...slowestFirst.map(row), ''].join('\n'));
  const minutes = ((Date.now() - startedAt) / 60_000).toFixed(1);
  console.log(`${verdicts.length} mutants in ${minutes} minutes, ${notCaught.length} not caught`);
  if (notCaught.length > 0) process.exitCode = 1;
}

const words = process.argv.slice(2);
if (words.includes('--help'))
  console.log('Usage: npm run test:mutation -- [WORD…]   mutants whose name has one of the words');
else await main(words);
