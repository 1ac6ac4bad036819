/** What the SDK lacks for workflow code: a test that fails here says that a workaround can go, or no longer works. */
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, type BundleOptions, DefaultLogger } from '@temporalio/worker';
import type { WorkflowInfo } from '@temporalio/workflow';
import { getActivator } from '@temporalio/workflow/lib/global-attributes.js';
import { expect, expectTypeOf, test } from 'vitest';
import { compileForNode20, type WebpackConfig } from '../../src/temporal/private/bundle-target.js';
import { setVersioningBehavior } from '../../src/temporal/private/versioning-behavior.js';

function targetsIn({ module }: WebpackConfig): string[] {
  return [...JSON.stringify(module?.rules).matchAll(/"target":"(\w+)"/g)].map(([, target]) => target!);
}

test('the bundler compiles for ES2017, and takes no other target but by its rule', async () => {
  expectTypeOf<Extract<keyof BundleOptions, `${string}arget`>>().toBeNever();
  const targets: string[][] = [];
  await bundleWorkflowCode({
    workflowsPath: fileURLToPath(new URL('../chaos/counting-workflow.ts', import.meta.url)),
    logger: new DefaultLogger('WARN'),
    webpackConfigHook: (config) => {
      targets.push(targetsIn(config));
      const changed = compileForNode20(config);
      targets.push(targetsIn(changed));
      return changed;
    },
  });
  expect(targets).toEqual([['es2017'], ['es2022']]);
});

test('no workflow may change its versioning behaviour, but by the state that the SDK reads', () => {
  expectTypeOf<Extract<keyof WorkflowInfo, `versioning${string}`>>().toBeNever();
  const state: Partial<ReturnType<typeof getActivator>> = { versioningBehavior: 'PINNED' };
  Reflect.set(globalThis, '__TEMPORAL_ACTIVATOR__', state);
  setVersioningBehavior(() => 'AUTO_UPGRADE');
  expect(getActivator().versioningBehavior).toBe('AUTO_UPGRADE');
  Reflect.deleteProperty(globalThis, '__TEMPORAL_ACTIVATOR__');
});
