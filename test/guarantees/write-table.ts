/** Writes the tables of promises into docs/promises.md, and that of mutants beside them, between their markers. */
import { readFile, writeFile } from 'node:fs/promises';
import { mutantTables } from '../chaos/mutants.js';
import { PROMISE_TABLES } from './promises.js';

const TABLES = {
  'docs/promises.md': PROMISE_TABLES,
  'test/chaos/mutants.md': mutantTables(),
};

for (const [page, tables] of Object.entries(TABLES)) {
  const file = new URL(`../../${page}`, import.meta.url);
  let text = await readFile(file, 'utf8');
  for (const [marker, table] of Object.entries(tables)) {
    const marked = new RegExp(`(<!-- ${marker} -->\\n)[^]*?(\\n<!-- /${marker} -->)`);
    if (!marked.test(text)) throw new Error(`${page} has no place for ${marker}`);
    text = text.replace(marked, (_, start: string, end: string) => `${start}\n${table}\n${end}`);
  }
  await writeFile(file, text);
}
