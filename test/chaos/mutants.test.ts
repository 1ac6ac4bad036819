import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { MUTANTS, mutantTable } from './mutants.js';

const read = (path: string) => readFile(new URL(`../../${path}`, import.meta.url), 'utf8');

test('their page shows exactly these mutants', async () => {
  expect(await read('test/chaos/mutants.md')).toContain(mutantTable());
});

test.each(MUTANTS)('mutant "$name" still fits the code, and its test exists', async ({ file, find, test, title }) => {
  expect((await read(file)).split(find)).toHaveLength(2);
  expect(await read(test)).toContain(title);
});
