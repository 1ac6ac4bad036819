/** How the workflows become a bundle, and where the worker finds that and the payload converter, as compiled files. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DefaultLogger, type BundleOptions } from '@temporalio/worker';
import { compileForNode20, type WebpackConfig } from './private/bundle-target.js';

/** What `npm run build` makes of the workflows; the worker loads nothing else of them. */
export const workflowBundlePath = built('workflow-bundle.js');
const payloadConverterPath = built('temporal/payload-converter.js');

/**
 * The SDK interrupts an activation after 5 seconds of the clock, also in a process that was suspended or starved. The
 * interrupted cancellation scope stays current in its thread: later workflows there neither see nor replay a
 * cancellation. Node 20 may end the whole process.
 */
export const isolateTimeout: { isolateExecutionTimeout: string } = { isolateExecutionTimeout: '1 day' };

/** What workflow code reads of its worker. None of it changes which command comes next. */
interface WorkflowSettings {
  /** False: copies of runs that a query spoilt go on. */
  guardsStaleCopies?: boolean;
  /** How long a worker may hold the polls of any job. */
  pollLeaseMs?: number | undefined;
}

/** The worker's workflow options; throws if the bundle was not built. */
export function loadWorkflowBundle({ guardsStaleCopies = true, pollLeaseMs }: WorkflowSettings = {}): {
  workflowBundle: { codePath: string } | { code: string };
  dataConverter: { payloadConverterPath: string };
} {
  if (!existsSync(workflowBundlePath)) {
    throw new Error(`There is no workflow bundle at ${workflowBundlePath}: run "npm run build" first.`);
  }
  const settings = { ...(!guardsStaleCopies && { staleCopyGuard: 'off' }), ...(pollLeaseMs && { pollLeaseMs }) };
  const set = Object.entries(settings).map(([name, value]) => `globalThis.${name} = ${JSON.stringify(value)};`);
  const workflowBundle =
    set.length === 0
      ? { codePath: workflowBundlePath }
      : { code: set.join('') + readFileSync(workflowBundlePath, 'utf8') };
  return { workflowBundle, dataConverter: { payloadConverterPath } };
}

/** Names the workflow code of this release: its version, and a hash of its bundle without the source map's paths. */
export function releaseBuildId(): string {
  const [code = ''] = readFileSync(workflowBundlePath, 'utf8').split('\n//# sourceMappingURL=', 1);
  return `${releaseVersion()}-${createHash('sha256').update(code).digest('hex').slice(0, 12)}`;
}

/** The version of the package. */
export function releaseVersion(): string {
  return (JSON.parse(readFileSync(built('../package.json'), 'utf8')) as { version: string }).version;
}

// The same place whether this module runs from src or from dist.
function built(path: string): string {
  return fileURLToPath(new URL(`../../dist/${path}`, import.meta.url));
}

/** How the workflows below a source folder, compiled (`dist`) or not (`src`), become a bundle. */
export function workflowBundleOptions(
  folder: string,
  extension: '.js' | '.ts',
): BundleOptions &
  Required<Pick<BundleOptions, 'payloadConverterPath' | 'preloadModules' | 'workflowInterceptorModules'>> {
  const path = (name: string) => join(folder, name + extension);
  const workflowsPath = path('workflows/index');
  const payloadConverterPath = path('temporal/payload-converter');
  return {
    workflowsPath,
    payloadConverterPath,
    // Run once for all workflows instead of once for each: our modules keep no state between calls.
    preloadModules: [path('temporal/stack-traces'), workflowsPath, payloadConverterPath],
    workflowInterceptorModules: [path('temporal/private/stale-copy'), path('workflows/trace-context')],
    logger: new DefaultLogger('WARN'),
    webpackConfigHook: (config) => withoutBanners(compileForNode20(config)),
  };
}

/** Each would be above a module, with its path: 40 kB. */
function withoutBanners(config: WebpackConfig): WebpackConfig {
  return { ...config, output: { ...config.output, pathinfo: false } };
}
