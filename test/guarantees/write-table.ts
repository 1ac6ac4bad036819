/** Writes the table of promises and that of mutants into docs/promises.md, between their markers. */
import { readFile, writeFile } from 'node:fs/promises';
import { mutantTable } from '../chaos/mutants.js';
import {
  credentialsPromiseTable,
  encryptionPromiseTable,
  faultTable,
  promiseTable,
  queuePromiseTable,
  tracePromiseTable,
} from './promises.js';

const file = new URL('../../docs/promises.md', import.meta.url);

function fill(text: string, marker: string, table: string): string {
  const marked = new RegExp(`(<!-- ${marker} -->\\n)[^]*?(\\n<!-- /${marker} -->)`);
  if (!marked.test(text)) throw new Error(`docs/promises.md has no place for ${marker}`);
  return text.replace(marked, (_, start: string, end: string) => `${start}\n${table}\n${end}`);
}

const text = await readFile(file, 'utf8');
const tables = {
  faults: faultTable(),
  promises: promiseTable(),
  'queue-promises': queuePromiseTable(),
  'encryption-promises': encryptionPromiseTable(),
  'trace-promises': tracePromiseTable(),
  'credentials-promises': credentialsPromiseTable(),
  mutants: mutantTable(),
};
await writeFile(
  file,
  Object.entries(tables).reduce((filled, [marker, table]) => fill(filled, marker, table), text),
);
