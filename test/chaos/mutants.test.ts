import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { HELD_BY, WITHOUT_MUTANT } from '../guarantees/held-by.js';
import { MUTANTS, mutantTables } from './mutants.js';

const read = (path: string) => readFile(new URL(`../../${path}`, import.meta.url), 'utf8');

test('their page shows exactly these mutants', async () => {
  const page = await read('test/chaos/mutants.md');
  for (const table of Object.values(mutantTables())) expect(page).toContain(table);
});

test('each promise has a mutant that its test catches, or the page says why it has none', () => {
  const promises = Object.entries(HELD_BY).flatMap(([file, rows]) =>
    Object.entries(rows).map(([fault, title]) => ({ fault, title, test: `test/${file}.test.ts` })),
  );
  const without = promises.filter(
    ({ test, title: whole }) => !MUTANTS.some((mutant) => mutant.test === test && whole.includes(mutant.title)),
  );
  expect(without.map(({ fault }) => fault).toSorted()).toEqual(Object.keys(WITHOUT_MUTANT).toSorted());
});

test.each(MUTANTS)('mutant "$name" still fits the code, and its test exists', async ({ file, find, test, title }) => {
  expect((await read(file)).split(find)).toHaveLength(2);
  expect(await read(test)).toContain(title);
});
