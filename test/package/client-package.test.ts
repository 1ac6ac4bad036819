import { execFile } from 'node:child_process';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { build } from 'esbuild';
import { publint } from 'publint';
import { beforeAll, describe, expect, test } from 'vitest';
import { API_REPORT, apiReport } from '../../scripts/client/api-report.js';
import {
  CLIENT_PROGRAMS,
  compile,
  compilerOf,
  ownErrors,
  pack,
  PROJECT_FOLDER,
  runProgram,
  unpackedConsumer,
} from './consumer.js';

const execute = promisify(execFile);
/** The Temporal client that comes along has 37 MB. */
const TARBALL_BYTES = 150_000;

let tarball: string;
let consumer: string;
beforeAll(async () => {
  tarball = await pack('agent-jobs-client');
  consumer = await unpackedConsumer({ 'agent-jobs-client': tarball });
});

describe('the packed client', () => {
  test('has no fault that publint or attw know', async () => {
    const bytes = await readFile(tarball);
    const { messages } = await publint({ pack: { tarball: new Uint8Array(bytes).buffer }, strict: true });
    expect(messages).toEqual([]);
    const checked = await checkPackage(createPackageFromTarballData(new Uint8Array(bytes)));
    expect(checked).toMatchObject({ packageName: 'agent-jobs-client', problems: [] });
  });

  test('is small, has all licences, and needs little but the Temporal client', async () => {
    expect((await stat(tarball)).size).toBeLessThanOrEqual(TARBALL_BYTES);
    const { stdout } = await execute('tar', ['-tzf', tarball]);
    expect(stdout).toContain('package/LICENSE\n');
    expect(stdout).not.toMatch(/tsbuildinfo|\.ts\.map|build\.mjs/);
    const own = join(consumer, 'node_modules/agent-jobs-client');
    const notices = await readFile(join(own, 'dist/THIRD-PARTY-LICENSES.txt'), 'utf8');
    for (const name of ['@noble/hashes', '@temporalio/envconfig', 'ms']) expect(notices).toContain(`${name} `);
    const manifest = JSON.parse(await readFile(join(own, 'package.json'), 'utf8')) as Record<string, unknown>;
    expect(Object.keys(manifest['dependencies'] as object)).toEqual(['smol-toml']);
    expect(manifest['peerDependencies']).toEqual({
      '@temporalio/client': '>=1.13.0 <2',
      '@temporalio/common': '>=1.13.0 <2',
      // For its entry "./workflow" alone.
      '@temporalio/workflow': '>=1.13.0 <2',
    });
    expect(manifest['peerDependenciesMeta']).toEqual({ '@temporalio/workflow': { optional: true } });
  });

  test('has one set of classes, however it is loaded', async () => {
    const program = `import { createRequire } from 'node:module';
import * as imported from 'agent-jobs-client';
const required = createRequire(import.meta.url)('agent-jobs-client');
const names = Object.keys(required).filter((name) => name !== '__esModule');
console.log(names.length > 25, names.every((name) => required[name] === imported[name]));
`;
    await writeFile(join(consumer, 'both.mjs'), program);
    expect(await runProgram(consumer, 'both.mjs')).toBe('true true\n');
  });

  test('loads nothing of Node where workflow code imports it', async () => {
    const dist = join(consumer, 'node_modules/agent-jobs-client/dist');
    const loaded = new Set(['workflow.js', 'contract.js', 'start-options.js']);
    const packages = new Set<string>();
    for (const file of loaded) {
      const code = await readFile(join(dist, file), 'utf8');
      for (const [, name = ''] of code.matchAll(/require\(["'`]([^"'`]+)["'`]\)/g)) {
        if (name.startsWith('.')) loaded.add(join(file, '..', name));
        else packages.add(name);
      }
    }
    expect(loaded.size).toBeGreaterThan(3);
    expect([...packages].toSorted()).toEqual(['@temporalio/common', '@temporalio/workflow']);
  });

  test('can be bundled by esbuild as an ES module, by the recipe of its page', async () => {
    const recipe = await readFile(join(PROJECT_FOLDER, 'docs/client.md'), 'utf8');
    const banner = /--banner:js="(.*)"/.exec(recipe)?.[1];
    expect(banner).toContain('createRequire');
    const program = join(consumer, 'bundled.mjs');
    await build({
      stdin: {
        contents: `import { AgentJobs } from 'agent-jobs-client';
const error = await AgentJobs.connect({ address: '127.0.0.1:1' }).catch((error) => error);
console.log(error.name);
process.exit();`,
        resolveDir: consumer,
      },
      bundle: true,
      platform: 'node',
      format: 'esm',
      banner: { js: banner! },
      outfile: program,
      logLevel: 'error',
    });
    expect(await runProgram('/', program)).toBe('TemporalUnavailableError\n');
  });

  test('shows every change of its public surface in packages/client/api-report.md: npm run docs:api', async () => {
    expect(await apiReport()).toBe(await readFile(API_REPORT, 'utf8'));
  });
});

/**
 * The resolution that knows no map of exports. What the others find is checked by attw above, and for the newest
 * compiler in worker-package.test.ts.
 */
test('a strict program over the packed client compiles with TypeScript 5.4 and the oldest resolution', async () => {
  for (const [name, text] of Object.entries(CLIENT_PROGRAMS)) await writeFile(join(consumer, `${name}.ts`), text);
  const errors = await compile(consumer, await compilerOf('5.4'), {
    noEmit: true,
    skipLibCheck: false,
    types: ['node'],
    module: 'commonjs',
    moduleResolution: 'node10',
    esModuleInterop: true,
  });
  expect(ownErrors(errors)).toEqual([]);
});
