/**
 * `npm run docs:contract` writes the schemas of the contract into docs/contract.
 * With `--release` it also makes this contract the one that later changes are compared with.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { formatJson, readContract } from './artefacts.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const HERE = `${ROOT}scripts/contract/`;

const { values } = parseArgs({ options: { release: { type: 'boolean', default: false } } });
const { version } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as { version: string };
const contract = readContract(ROOT, version);
writeFileSync(`${ROOT}docs/contract/agent-jobs.schema.json`, await formatJson(contract.schema));
if (values.release) {
  writeFileSync(`${HERE}released.json`, await formatJson(contract));
  writeFileSync(`${HERE}declared-changes.json`, '{}\n');
}
