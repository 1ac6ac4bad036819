import { join } from 'node:path';
import { DefaultLogger, type BundleOptions } from '@temporalio/worker';

/** How the workflows in a folder, compiled or not, become a bundle. */
export function workflowBundleOptions(
  folder: string,
  extension: '.js' | '.ts',
): BundleOptions & Required<Pick<BundleOptions, 'payloadConverterPath' | 'preloadModules'>> {
  const [workflowsPath, payloadConverterPath, stackTraces] = ['index', 'payload-converter', 'stack-traces'].map(
    (name) => join(folder, name + extension),
  ) as [string, string, string];
  return {
    workflowsPath,
    payloadConverterPath,
    // Run once for all workflows instead of once for each: our modules keep no state between calls.
    preloadModules: [stackTraces, workflowsPath, payloadConverterPath],
    logger: new DefaultLogger('WARN'),
  };
}
