/** `npm run docs:contract` writes the published files of the contract into docs/contract. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { artefacts, readContract } from './artefacts.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const FOLDER = `${ROOT}docs/contract/`;

const { version } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as { version: string };
mkdirSync(FOLDER, { recursive: true });
for (const [name, text] of Object.entries(await artefacts(readContract(ROOT, version)))) {
  writeFileSync(FOLDER + name, text);
}
