import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';

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
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-gate-'));
  await writeFile(join(folder, 'npm'), NPM);
  await chmod(join(folder, 'npm'), 0o755);
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function gate(fails: string, report: object = { success: true, numPassedTests: 7, numFailedTests: 0 }) {
  const PATH = `${folder}:${process.env['PATH']}`;
  const env = { PATH, XDG_CACHE_HOME: folder, FAILS: fails, REPORT: JSON.stringify(report) };
  const { code, stdout } = await run('bash', [join(ROOT, '.ci/run')], { env }).then(
    (done) => ({ ...done, code: 0 }),
    (error: { code: number; stdout: string }) => error,
  );
  const lines = stdout.trim().split('\n');
  return { code, lines, last: lines.at(-1), steps: lines.filter((line) => line.startsWith('step: ')) };
}

// The checks run beside the tests, and are told after them.
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

test('the files that took longest are told beside their last run on the machine', async () => {
  const took = (seconds: number[]) => ({
    success: true,
    numPassedTests: seconds.length,
    numFailedTests: 0,
    testResults: seconds.map((each, index) => ({
      name: join(ROOT, `test/file-${index}.test.ts`),
      ...{ status: 'passed', assertionResults: [], startTime: 1_000, endTime: 1_000 + each * 1_000 },
    })),
  });
  const many = Array.from({ length: 25 }, (_, index) => index + 1);
  const rows = async (seconds: number[]) => (await gate('none', took(seconds))).lines.slice(-22, -1);

  const first = await rows(many);
  expect(first[0]?.split(/\s+/)).toEqual(['', '25.0', '-', 'test/file-24.test.ts']);
  expect(first.slice(-2).map((line) => line.trim())).toEqual([
    expect.stringMatching(/^6\.0 +- {2}test\/file-5\.test\.ts$/),
    expect.stringMatching(/^325\.0 +- {2}all 25 files$/),
  ]);
  const second = await rows([100, ...many.slice(1)]);
  expect(second[0]?.split(/\s+/)).toEqual(['', '100.0', '1.0', 'test/file-0.test.ts']);
  expect(second.at(-1)?.trim()).toMatch(/^424\.0 +325\.0 {2}all 25 files$/);
});

test('"npm test" runs the promise table, and every file that a promise names', async () => {
  const { stdout } = await run('npx', ['vitest', 'list', '--mode', 'fast', '--filesOnly'], { cwd: ROOT });
  const page = await readFile(join(ROOT, 'docs/promises.md'), 'utf8');
  const named = page.match(/test\/[\w/-]+\.test\.ts/g) ?? [];
  expect(named.length).toBeGreaterThan(50);
  expect(['test/guarantees/promises.test.ts', ...named].filter((file) => !stdout.includes(file))).toEqual([]);
});
