/** The SDK's worker takes a bundle, and the payload converter, as paths of compiled files. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** What `npm run build` makes of the workflows; the worker loads nothing else of them. */
export const workflowBundlePath = built('workflow-bundle.js');
const payloadConverterPath = built('temporal/payload-converter.js');

/** The worker's workflow options; throws where the bundle was not built. */
export function loadWorkflowBundle(): {
  workflowBundle: { codePath: string };
  dataConverter: { payloadConverterPath: string };
} {
  if (!existsSync(workflowBundlePath)) {
    throw new Error(`There is no workflow bundle at ${workflowBundlePath}: run "npm run build" first.`);
  }
  return { workflowBundle: { codePath: workflowBundlePath }, dataConverter: { payloadConverterPath } };
}

// The same place whether this module runs from src or from dist.
function built(path: string): string {
  return fileURLToPath(new URL(`../../dist/${path}`, import.meta.url));
}
