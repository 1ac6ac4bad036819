/** `npm run kubernetes:render` writes the kustomize base and its components, from the chart. It needs helm 3. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { KUBERNETES_FOLDER, renderedFiles } from './rendered.js';

for (const [path, text] of Object.entries(await renderedFiles())) writeFileSync(join(KUBERNETES_FOLDER, path), text);
