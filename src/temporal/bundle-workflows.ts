/** Bundles the compiled workflows for the worker, unless nothing that they are made of has changed since the last time. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { bundleWorkflowCode } from '@temporalio/worker';
import { workflowBundlePath } from './workflow-bundle.js';
import { workflowBundleOptions } from './workflow-bundle-options.js';

const distFolder = dirname(workflowBundlePath);
const hashPath = `${workflowBundlePath}.hash`;

const hash = hashOfInputs();
const isCurrent = existsSync(workflowBundlePath) && existsSync(hashPath) && readFileSync(hashPath, 'utf8') === hash;
if (!isCurrent) {
  const { code } = await bundleWorkflowCode(workflowBundleOptions(distFolder, '.js'));
  replaceFile(workflowBundlePath, code);
  replaceFile(hashPath, hash);
}

/** Of every compiled module, since the workflows may import any, and of the SDK, whose version must be the worker's. */
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
