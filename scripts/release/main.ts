/**
 * Makes a release of a clean tree: `npm run release -- 1.2.3` sets the version, closes the changelog's section, renews
 * the contract's files, runs the gate, packs into the folder `release`, commits and tags. `--no-gate` leaves the gate
 * out. Nothing is pushed or published.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { packRelease } from './pack.js';

const CONTRACT = ['docs/contract', 'scripts/contract/released.json', 'scripts/contract/declared-changes.json'];
const PACKAGES = ['package.json', 'packages/client/package.json', 'package-lock.json'];
/** It names the image of the release. */
const CHART = 'deploy/kubernetes/chart/Chart.yaml';
const FILES = ['CHANGELOG.md', ...PACKAGES, CHART, ...CONTRACT];
const UNRELEASED = '## Unreleased\n';

/** A reason not to release, for a person. */
class ReleaseError extends Error {}

function run(program: string, ...args: string[]): void {
  execFileSync(program, args, { stdio: 'inherit' });
}

function read(program: string, ...args: string[]): string {
  return execFileSync(program, args, { encoding: 'utf8' }).trim();
}

function main(): void {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { 'no-gate': { type: 'boolean', default: false } },
  });
  const [version = ''] = positionals;
  checkVersion(version);
  if (read('git', 'status', '--porcelain'))
    throw new ReleaseError('the tree is not clean: commit or remove what is there');
  const changelog = closeSection(readFileSync('CHANGELOG.md', 'utf8'), version);
  if (!existsSync(`test/replay/histories/${version}`))
    throw new ReleaseError(`record its histories first: RELEASE=${version} npm run test:record-histories`);
  const files = prepare(version, changelog, !values['no-gate']).join(', ');
  run('git', 'commit', '--quiet', '--message', `chore(release): Release ${version}`, '--', ...FILES);
  run('git', 'tag', '--annotate', `v${version}`, '--message', `Version ${version}`);
  console.log(`${version} is committed, tagged v${version} and packed in release: ${files}`);
  console.log('Next: git push --follow-tags, then hand out those files; nothing is published.');
}

function checkVersion(version: string): void {
  const numbers = (text: string): number[] => text.split('.').map(Number);
  if (!/^\d+\.\d+\.\d+$/.test(version)) throw new ReleaseError('say the version: npm run release -- 1.2.3');
  const { version: current } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
  const [was, now] = [numbers(current), numbers(version)];
  const first = now.findIndex((number, place) => number !== was[place]);
  if (first === -1 || now[first]! < was[first]!) throw new ReleaseError(`${version} is not after ${current}`);
  if (read('git', 'tag', '--list', `v${version}`)) throw new ReleaseError(`the tag v${version} exists`);
}

/** The changelog with what is unreleased under the version and today's date, and an empty section for what follows. */
function closeSection(changelog: string, version: string): string {
  const [before, after] = changelog.split(UNRELEASED);
  if (before === undefined || after === undefined || /^\s*(## |$)/.test(after)) {
    throw new ReleaseError('CHANGELOG.md has nothing under "Unreleased"');
  }
  const today = new Date().toISOString().slice(0, 10);
  return `${before}${UNRELEASED}\n## ${version} (${today})\n${after}`;
}

/** Writes the version, checks it and packs it; undoes all if a check or the build fails. */
function prepare(version: string, changelog: string, hasGate: boolean): string[] {
  try {
    writeFileSync('CHANGELOG.md', changelog);
    const { version: before } = JSON.parse(readFileSync('package.json', 'utf8')) as Manifest;
    writeFileSync(CHART, readFileSync(CHART, 'utf8').replaceAll(before, version));
    PACKAGES.forEach((file) => setVersion(file, version));
    // From now on callers may rely on what this version takes and returns.
    run('npm', 'run', 'docs:contract', '--', '--release');
    if (hasGate) run('npm', 'run', 'check');
    return packRelease();
  } catch (error) {
    run('git', 'restore', '--', ...FILES);
    throw error;
  }
}

interface Manifest {
  version: string;
  dependencies?: Record<string, string>;
  packages?: Record<string, Manifest>;
}

/** Sets the version of both packages, which are released together, in a package.json or the lock file. */
function setVersion(file: string, version: string): void {
  const manifest = JSON.parse(readFileSync(file, 'utf8')) as Manifest;
  const { packages } = manifest;
  for (const each of [manifest, packages?.[''], packages?.['packages/client']]) {
    if (each === undefined) continue;
    each.version = version;
    if (each.dependencies?.['agent-jobs-client']) each.dependencies['agent-jobs-client'] = version;
  }
  writeFileSync(file, `${JSON.stringify(manifest, null, 2)}\n`);
}

try {
  main();
} catch (error) {
  process.exitCode = 1;
  console.error(`No release: ${error instanceof ReleaseError ? error.message : String(error)}`);
}
