import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, expect, test } from 'vitest';
import type { BillOfMaterials } from '../../scripts/release/bill-of-materials.js';
import { projectRepository } from '../support/project-files.js';
import { newFolder } from '../support/folder.js';

const execute = promisify(execFile);
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const CHANGELOG = '# Changelog\n\n## Unreleased\n\n- Something new.\n\n## 0.1.0 (2026-01-02)\n\n- The first.\n';

let clone = '';
afterEach(() => void (clone = ''));

async function makeClone(): Promise<void> {
  clone = newFolder();
  await execute('git', ['clone', '--quiet', '--depth=1', `file://${projectRepository()}`, clone]);
  await symlink(join(ROOT, 'node_modules'), join(clone, 'node_modules'));
  await writeFile(join(clone, '.git/info/exclude'), 'node_modules\n');
  await commit('CHANGELOG.md', CHANGELOG);
}

const git = async (...args: string[]): Promise<string> => {
  const name = ['-c', 'user.name=Test', '-c', 'user.email=test@example.com'];
  return (await execute('git', [...name, ...args], { cwd: clone })).stdout.trim();
};

async function commit(file: string, text: string): Promise<void> {
  await mkdir(dirname(join(clone, file)), { recursive: true });
  await writeFile(join(clone, file), text);
  await git('add', file);
  await git('commit', '--quiet', '--all', '--message', `test: Change ${file}`);
}

/** Without the build: what is packed is not looked at. */
async function release(...args: string[]): Promise<{ code: number; output: string }> {
  const env = {
    ...process.env,
    npm_config_ignore_scripts: 'true',
    GIT_AUTHOR_NAME: 'Test',
    GIT_AUTHOR_EMAIL: 'test@example.com',
    GIT_COMMITTER_NAME: 'Test',
    GIT_COMMITTER_EMAIL: 'test@example.com',
  };
  const tsx = join(ROOT, 'node_modules/tsx/dist/cli.mjs');
  const script = join(ROOT, 'scripts/release/main.ts');
  return execute(process.execPath, [tsx, script, ...args], { cwd: clone, env }).then(
    ({ stdout }) => ({ code: 0, output: stdout }),
    ({ code, stderr }: { code: number; stderr: string }) => ({ code, output: stderr }),
  );
}

test('a release sets the version, closes the section of the changelog, packs, commits and tags', async () => {
  await makeClone();
  await commit('test/replay/histories/99.1.0/polls.json', '{}\n');
  const { code, output } = await release('99.1.0', '--no-gate');
  expect({ code, output }).toEqual({
    code: 0,
    output: expect.stringMatching(
      /agent-jobs-99.1.0.tgz, agent-jobs-client-99.1.0.tgz, agent-jobs-99.1.0.cdx.json, SHA256SUMS/,
    ),
  });
  const today = new Date().toISOString().slice(0, 10);
  expect(await readFile(join(clone, 'CHANGELOG.md'), 'utf8')).toBe(
    CHANGELOG.replace('## Unreleased\n', `## Unreleased\n\n## 99.1.0 (${today})\n`),
  );
  const released = async (file: string) => JSON.parse(await git('show', `v99.1.0:${file}`)) as object;
  const both = { version: '99.1.0', dependencies: { 'agent-jobs-client': '99.1.0' } };
  expect(await released('package.json')).toMatchObject(both);
  expect(await released('packages/client/package.json')).toMatchObject({ version: '99.1.0' });
  const chart = await git('show', 'HEAD:deploy/kubernetes/chart/Chart.yaml');
  expect(chart).toContain("\nversion: 99.1.0\nappVersion: '99.1.0'");
  expect(await released('package-lock.json')).toMatchObject({
    packages: { '': both, 'packages/client': { version: '99.1.0' } },
  });
  // What is handed out beside the packages: what is in them, and the hashes of all.
  const handedOut = async (file: string) => readFile(join(clone, 'release', file));
  const bill = JSON.parse((await handedOut('agent-jobs-99.1.0.cdx.json')).toString()) as BillOfMaterials;
  expect(bill.metadata.component).toMatchObject({ name: 'agent-jobs', version: '99.1.0' });
  const names = bill.components.map(({ name }) => name);
  // The image has what is optional in the package, with all that it needs.
  const some = ['agent-jobs-client', '@temporalio/worker', 'zod', '@aws-sdk/client-s3', '@smithy/core', 'zrender'];
  expect(names).toEqual(expect.arrayContaining(some));
  expect(names).not.toContain('vitest');
  const sums = (await handedOut('SHA256SUMS')).toString().trim().split('\n');
  expect(sums).toHaveLength(3);
  for (const line of sums) {
    const [hash, file = ''] = line.split('  ');
    expect(
      createHash('sha256')
        .update(await handedOut(file))
        .digest('hex'),
    ).toBe(hash);
  }
  // Later changes are compared with the contract of this version.
  expect(await released('scripts/contract/released.json')).toMatchObject({
    version: '99.1.0',
    workflows: expect.any(Array) as unknown,
  });
  expect(await git('show', 'v99.1.0:scripts/contract/declared-changes.json')).toBe('{}');
  expect(await git('log', '-1', '--format=%s')).toBe('chore(release): Release 99.1.0');
  expect(await git('describe', '--exact-match')).toBe('v99.1.0');
  expect(await git('status', '--porcelain')).toBe('');

  // What is released has nothing unreleased.
  expect(await release('99.2.0', '--no-gate')).toMatchObject({
    code: 1,
    output: expect.stringContaining('nothing under'),
  });
});

/** The gate of the clone: one command. */
async function setGate(check: string): Promise<void> {
  const manifest = JSON.parse(await readFile(join(clone, 'package.json'), 'utf8')) as { scripts: object };
  manifest.scripts = { ...manifest.scripts, check };
  await commit('package.json', `${JSON.stringify(manifest, null, 2)}\n`);
}

test('the gate sees what will be committed; if it fails, all is as before', async () => {
  await makeClone();
  await commit('test/replay/histories/99.1.0/polls.json', '{}\n');
  await setGate('grep -q "## 99.1.0" CHANGELOG.md && exit 3');
  const head = await git('rev-parse', 'HEAD');
  expect(await release('99.1.0')).toMatchObject({ code: 1, output: expect.stringContaining('npm run check') });
  expect([await git('rev-parse', 'HEAD'), await git('status', '--porcelain')]).toEqual([head, '']);
  await setGate('grep -q "## 99.1.0" CHANGELOG.md');
  expect(await release('99.1.0')).toMatchObject({ code: 0 });
});

test('there is no release without a later version, histories and a clean tree, or of a tag that exists', async () => {
  await makeClone();
  const head = await git('rev-parse', 'HEAD');
  const refused = async (reason: string, ...args: string[]) =>
    expect(await release(...args)).toMatchObject({ code: 1, output: expect.stringContaining(reason) });
  await refused('say the version', 'v99.0.0', '--no-gate');
  await refused('is not after', '0.0.1', '--no-gate');
  await git('tag', 'v99.0.0');
  await refused('the tag v99.0.0 exists', '99.0.0', '--no-gate');
  await refused('RELEASE=99.1.0 npm run test:record-histories', '99.1.0', '--no-gate');
  await writeFile(join(clone, 'left-over.txt'), '');
  await refused('the tree is not clean', '99.1.0', '--no-gate');
  expect(await git('rev-parse', 'HEAD')).toBe(head);
});
