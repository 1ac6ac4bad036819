/**
 * Makes the packages that are optional for users of `agent-jobs` dependencies of the package.json at hand, so
 * that `npm prune --omit=dev` keeps them as the lock file has them: the image of a worker has them all.
 */
import { readFileSync, writeFileSync } from 'node:fs';

const { peerDependencies, peerDependenciesMeta: _, ...file } = JSON.parse(readFileSync('package.json', 'utf8'));
for (const name of Object.keys(peerDependencies)) {
  file.dependencies[name] = file.devDependencies[name];
  delete file.devDependencies[name];
}
writeFileSync('package.json', `${JSON.stringify(file, null, 2)}\n`);
