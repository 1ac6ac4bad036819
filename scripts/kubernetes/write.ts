/**
 * `npm run kubernetes:render` writes the kustomize base and its components, from the chart. It needs Helm 3: `--
 * /path/to/helm`.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { KUBERNETES_FOLDER, renderedFiles } from './rendered.js';

const [helm = 'helm'] = process.argv.slice(2);
for (const [path, text] of Object.entries(await renderedFiles(helm)))
  writeFileSync(join(KUBERNETES_FOLDER, path), text);
