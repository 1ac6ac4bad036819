/**
 * Decides for which Node workflow code is compiled. The SDK's bundler compiles for ES2017 (sdk-typescript#588), with
 * helpers for each private field: they made the bundle 75 kB larger than one for Node 20.
 *
 * Needs: the rule for TypeScript in the bundler's own configuration of webpack.
 * Can go when: the bundler takes the target as an option.
 * Test: `test/private/workflow.test.ts`.
 */
import type { BundleOptions } from '@temporalio/worker';

/** The bundler's configuration. */
export type WebpackConfig = Parameters<NonNullable<BundleOptions['webpackConfigHook']>>[0];

/** The same configuration, which it changes, for Node 20. */
export function compileForNode20(config: WebpackConfig): WebpackConfig {
  for (const rule of config.module?.rules ?? []) {
    const { options } = ((rule as { use?: unknown } | null)?.use ?? {}) as { options?: { jsc?: { target: string } } };
    if (options?.jsc) options.jsc.target = 'es2022';
  }
  return config;
}
