import { join } from 'node:path';
import { DefaultLogger, type BundleOptions } from '@temporalio/worker';

/** How the workflows below a source folder, compiled (`dist`) or not (`src`), become a bundle. */
export function workflowBundleOptions(
  folder: string,
  extension: '.js' | '.ts',
): BundleOptions & Required<Pick<BundleOptions, 'payloadConverterPath' | 'preloadModules'>> {
  const path = (name: string) => join(folder, name + extension);
  const workflowsPath = path('workflows/index');
  const payloadConverterPath = path('temporal/payload-converter');
  return {
    workflowsPath,
    payloadConverterPath,
    // Run once for all workflows instead of once for each: our modules keep no state between calls.
    preloadModules: [path('temporal/stack-traces'), workflowsPath, payloadConverterPath],
    logger: new DefaultLogger('WARN'),
  };
}
