import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { shared } from './support/shared.js';

/** The SDK alone takes 1.64 MB, source maps included; what comes on top is ours and two small packages. */
const MAX_BYTES = 3_000_000;
const PACKAGES = ['@noble/hashes', '@temporalio/common', '@temporalio/workflow', 'long', 'ms', 'nexus-rpc'];

describe('the workflow bundle', () => {
  // Made once per run, which takes a busy machine its time: a hook's limit is longer than a test's.
  beforeAll(async () => {
    await shared('workflow-bundle');
  });

  test('holds the packages that workflow code may use and no others', async () => {
    const modules = await bundledModules();
    const packages = modules.flatMap((path) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []);
    expect([...new Set(packages)].sort()).toEqual(PACKAGES);
  });

  test('holds no activity, no HTTP client and nothing of the worker', async () => {
    const ours = (await bundledModules()).filter((path) => path.includes('src/'));
    expect(ours.length).toBeGreaterThan(0);
    expect(
      ours.filter((path) => /src\/(activities|upstream|worker|snapshots|config|starter|local)/.test(path)),
    ).toEqual([]);
  });

  test('stays small', async () => {
    expect(Buffer.byteLength(await bundleCode())).toBeLessThan(MAX_BYTES);
  });
});

async function bundleCode(): Promise<string> {
  return readFileSync((await shared('workflow-bundle')).path, 'utf8');
}

/** Webpack names each module in a comment before its code. */
async function bundledModules(): Promise<string[]> {
  return [...(await bundleCode()).matchAll(/^\/\*\*\*\/ "([^"]+)"/gm)].map((match) => match[1]!);
}
