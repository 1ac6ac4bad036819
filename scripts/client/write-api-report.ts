/** `npm run docs:api`: writes the report of the client's public surface anew. */
import { writeFile } from 'node:fs/promises';
import { API_REPORT, apiReport } from './api-report.js';

await writeFile(API_REPORT, await apiReport());
