/**
 * Bundles the compiled workflows when the package is built. A worker of the SDK bundles them at each start, which takes
 * about a second. This stays: the SDK recommends a bundle made before for production.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { bundleWorkflowCode } from '@temporalio/worker';
import { workflowBundleOptions, workflowBundlePath } from './workflow-bundle.js';

const distFolder = dirname(workflowBundlePath);
const hashPath = `${workflowBundlePath}.hash`;

const hash = hashOfInputs();
const isCurrent = existsSync(workflowBundlePath) && existsSync(hashPath) && readFileSync(hashPath, 'utf8') === hash;
if (!isCurrent) {
  const { code } = await bundleWorkflowCode(workflowBundleOptions(distFolder, '.js'));
  replaceFile(workflowBundlePath, code);
  replaceFile(hashPath, hash);
}

/**
 * The hash of every compiled module, since workflows may import any, and of the SDK's version, which must be the
 * worker's.
 */
function hashOfInputs(): string {
  const sum = createHash('sha256').update(createRequire(import.meta.url)('@temporalio/worker/package.json').version);
  const modules = readdirSync(distFolder, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.js'));
  for (const path of modules.sort()) {
    const file = join(distFolder, path);
    if (file !== workflowBundlePath) sum.update(path).update(readFileSync(file));
  }
  return sum.digest('hex');
}

// A worker that starts meanwhile sees the old file or the new one.
function replaceFile(path: string, content: string): void {
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, content);
  renameSync(draft, path);
}
