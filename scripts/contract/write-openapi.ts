/** The second half of `npm run docs:contract`: the document is made of the schemas that the first half has written. */
import { writeFileSync } from 'node:fs';
import { formatJson } from './artefacts.js';
import { openApiDocument } from './openapi.js';

const DOCUMENT = new URL('../../docs/contract/openapi.json', import.meta.url);
writeFileSync(DOCUMENT, await formatJson(openApiDocument()));
