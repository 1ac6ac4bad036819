import { execFile } from 'node:child_process';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeEach, expect, test } from 'vitest';
import { newFolder } from '../support/folder.js';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** Stands in for npm: a step of the gate is to fail or not, and the tests leave a report. */
const NPM = `#!/usr/bin/env bash
for argument in "$@"; do
  case "$argument" in --outputFile.json=*) echo "$REPORT" > "\${argument#*=}" ;; esac
done
step="$*"
echo "step: \${step%% --*}"
[ "\${step%% --*}" != "$FAILS" ]
`;

let folder: string;
beforeEach(async () => {
  folder = newFolder();
  await writeFile(join(folder, 'npm'), NPM);
  await chmod(join(folder, 'npm'), 0o755);
});

async function gate(fails: string, report: object = { success: true, numPassedTests: 7, numFailedTests: 0 }) {
  const PATH = `${folder}:${process.env['PATH']}`;
  // A browser that is there: the gate installs none.
  const env = { PATH, CHROMIUM: 'bash', XDG_CACHE_HOME: folder, FAILS: fails, REPORT: JSON.stringify(report) };
  const { code, stdout } = await run('bash', [join(ROOT, '.ci/run')], { env }).then(
    (done) => ({ ...done, code: 0 }),
    (error: { code: number; stdout: string }) => error,
  );
  const lines = stdout.trim().split('\n');
  return { code, lines, last: lines.at(-1), steps: lines.filter((line) => line.startsWith('step: ')) };
}

// The checks run beside the tests, and are printed after them.
const STEPS = ['step: ci', 'step: run test:all', 'step: run lint', 'step: run types', 'step: run unused'];

test('the gate is what npm run check runs, after a clean installation', async () => {
  expect(await gate('none')).toMatchObject({ code: 0, last: '7 passed, 0 failed', steps: STEPS });
  const { scripts } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { scripts: { check: string } };
  expect(scripts.check).toBe('npm run lint && npm run types && npm run unused && npm run test:all');
});

test.each(['run lint', 'run types', 'run unused', 'run test:all'])(
  '"npm %s" that fails fails the gate, which runs to its end',
  async (step) => {
    const { code, last, steps } = await gate(step);
    expect(code).not.toBe(0);
    expect({ last, steps }).toEqual({ last: '7 passed, 0 failed', steps: STEPS });
  },
);

test('a file of tests that could not be loaded and a run without a test fail the gate', async () => {
  expect((await gate('none', { success: false, numPassedTests: 7, numFailedTests: 0 })).code).not.toBe(0);
  expect((await gate('none', { success: true, numPassedTests: 0, numFailedTests: 0 })).code).not.toBe(0);
});

test('"npm test" runs the promise table, and every file that a promise names', async () => {
  const { stdout } = await run('npx', ['vitest', 'list', '--mode', 'fast', '--filesOnly'], { cwd: ROOT });
  const page = await readFile(join(ROOT, 'docs/promises.md'), 'utf8');
  const named = page.match(/test\/[\w/-]+\.test\.ts/g) ?? [];
  expect(named.length).toBeGreaterThan(50);
  expect(['test/guarantees/promises.test.ts', ...named].filter((file) => !stdout.includes(file))).toEqual([]);
});
