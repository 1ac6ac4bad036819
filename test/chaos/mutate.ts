/**
 * Breaks the product on purpose, one small change at a time in a copy of the repository, and shows that a named test fails for
 * each: `npm run test:mutation`, or `npm run test:mutation -- WORD…` for those whose name has one of the words.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MUTANTS, type Mutant } from './mutants.js';

const root = fileURLToPath(new URL('../../', import.meta.url));
const COPIED = ['src', 'test', 'docs', 'package.json', 'tsconfig.json', 'tsconfig.build.json', 'vitest.config.ts'];
const TEST_LIMIT_MS = 5 * 60_000;

/** Whether a test passes in a copy of the repository, with the mutation or without. */
function passes({ test, title }: { test: string; title: string }, mutant: Mutant | null): boolean {
  const copy = mkdtempSync(join(tmpdir(), 'agent-jobs-mutant-'));
  try {
    for (const path of COPIED) cpSync(join(root, path), join(copy, path), { recursive: true });
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    if (mutant) mutate(copy, mutant);
    // A mutant that does not build would fail every test.
    if (run(copy, ['npm', 'run', 'build', '--silent']).status !== 0) throw new Error(`${mutant?.name}: does not build`);
    const { status, stdout } = run(copy, ['npx', 'vitest', 'run', test, '-t', title, '--maxWorkers=1']);
    // A title that fits nothing would let every mutant live.
    if (!/ (passed|failed)/.test(stdout)) throw new Error(`${test} has no test "${title}"`);
    return status === 0;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

function mutate(copy: string, { name, file, find, replace }: Mutant): void {
  const path = join(copy, file);
  const text = readFileSync(path, 'utf8');
  if (text.split(find).length !== 2) throw new Error(`${name}: ${file} does not hold its text exactly once`);
  writeFileSync(
    path,
    text.replace(find, () => replace),
  );
}

function run(cwd: string, [program = '', ...args]: string[]): { status: number | null; stdout: string } {
  return spawnSync(program, args, { cwd, encoding: 'utf8', timeout: TEST_LIMIT_MS, maxBuffer: 64 * 1024 * 1024 });
}

const words = process.argv.slice(2);
const chosen = MUTANTS.filter(({ name }) => words.length === 0 || words.some((word) => name.includes(word)));
for (const test of new Set(chosen.map((mutant) => mutant.test))) {
  const mutants = chosen.filter((mutant) => mutant.test === test);
  const title = mutants.map((mutant) => mutant.title).join('|');
  if (!passes({ test, title }, null)) throw new Error(`${test} fails without any mutant`);
  for (const mutant of mutants) {
    const verdict = passes(mutant, mutant) ? 'SURVIVED' : 'caught';
    if (verdict === 'SURVIVED') process.exitCode = 1;
    console.log(`${verdict.padEnd(8)}  ${mutant.name}  (${test}: ${mutant.title})`);
  }
}
