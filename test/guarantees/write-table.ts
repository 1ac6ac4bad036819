/** Writes the promise table into docs/guarantees.md, between its markers. */
import { readFile, writeFile } from 'node:fs/promises';
import { promiseTable } from './promises.js';

const file = new URL('../../docs/guarantees.md', import.meta.url);
const MARKED = /(<!-- promises -->\n)[^]*?(\n<!-- \/promises -->)/;

const text = await readFile(file, 'utf8');
await writeFile(
  file,
  text.replace(MARKED, (_, start: string, end: string) => `${start}\n${promiseTable()}\n${end}`),
);
