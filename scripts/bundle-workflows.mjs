/** Bundles the compiled workflows when the package is built: at the start of a worker it would take a second. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { bundleWorkflowCode } from '@temporalio/worker';
import { workflowBundleOptions, workflowBundlePath } from '../dist/temporal/workflow-bundle.js';

const distFolder = dirname(workflowBundlePath);
const hashPath = `${workflowBundlePath}.hash`;

const hash = hashOfInputs();
const isCurrent = existsSync(workflowBundlePath) && existsSync(hashPath) && readFileSync(hashPath, 'utf8') === hash;
if (!isCurrent) {
  const { code } = await bundleWorkflowCode(workflowBundleOptions(distFolder, '.js'));
  replaceFile(workflowBundlePath, withoutThisMachine(code));
  replaceFile(hashPath, hash);
}

/**
 * The hash of every compiled module, since workflows may import any, of this script, and of the SDK's version, which
 * must be the worker's.
 */
function hashOfInputs() {
  const sum = createHash('sha256').update(createRequire(import.meta.url)('@temporalio/worker/package.json').version);
  sum.update(readFileSync(new URL(import.meta.url)));
  const modules = readdirSync(distFolder, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.js'));
  for (const path of modules.sort()) {
    const file = join(distFolder, path);
    if (file !== workflowBundlePath) sum.update(path).update(readFileSync(file));
  }
  return sum.digest('hex');
}

/** The bundle with paths from the package's folder on: the same sources give the same bytes, in every folder. */
function withoutThisMachine(code) {
  const before = 'sourceMappingURL=data:application/json;charset=utf-8;base64,';
  const start = code.lastIndexOf(before) + before.length;
  const [encoded = ''] = /^[\w+/=]+/.exec(code.slice(start)) ?? [];
  const folder = JSON.stringify(join(distFolder, '..', '/')).slice(1, -1);
  // The name of the file has a hash of the paths.
  const text = Buffer.from(encoded, 'base64')
    .toString()
    .replace(/workflow-bundle-\w+\.js/, 'workflow-bundle.js');
  const map = JSON.parse(text.replaceAll(folder, ''));
  // The last lines are of a generated module that names others by their whole paths: their columns differ by folder.
  const entry = code.split('\n').findIndex((line) => line.includes('webpackMode: "eager"'));
  map.mappings = map.mappings.split(';', entry).join(';');
  const shortened = Buffer.from(JSON.stringify(map)).toString('base64');
  return `${code.slice(0, start)}${shortened}${code.slice(start + encoded.length)}`;
}

// A worker that starts meanwhile sees the old file or the new one.
function replaceFile(path, content) {
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, content);
  renameSync(draft, path);
}
