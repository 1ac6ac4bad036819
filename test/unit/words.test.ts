/** The tables of words hold nothing but data, and the contract's page has each of their words. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { WORDS } from '../../src/contract/words.js';

const tables = Object.entries(WORDS);

test('the tables are the same as JSON, and no word comes twice', () => {
  expect(JSON.parse(JSON.stringify(WORDS))).toEqual(WORDS);
  for (const [name, rows] of tables) expect(new Set(rows.map(({ word }) => word)).size, name).toBe(rows.length);
});

test('a wait that may last says what to do, and each bad end but one of a person', () => {
  for (const { word, isShown, remedy } of WORDS.waits) expect(remedy !== null, word).toBe(isShown);
  const silent = WORDS.ends.filter(({ remedy }) => remedy === null).map(({ word }) => word);
  expect(silent).toEqual(['completed', 'archived', 'abandoned']);
});

test('a run without a result has an error, and one that surely made no job its own exit code', () => {
  for (const { word, status, error, job, exit } of WORDS.ends) {
    expect(error === null, word).toBe(status === 'COMPLETED');
    expect(exit[0] === 'notCreated', word).toBe(job === 'no');
  }
});

test('the contract’s page has each word', () => {
  const page = readFileSync(new URL('../../docs/contract.md', import.meta.url), 'utf8');
  const words = tables.flatMap(([, rows]) => rows.map(({ word }) => word));
  expect(words.filter((word) => !page.includes(`\`${word}\``))).toEqual([]);
});
