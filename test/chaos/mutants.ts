/**
 * Changes that break a promise, each with the test that must fail for it: `npm run test:mutation` shows that it does.
 * They stand in mutants.txt: below `# FILE` each change has its name, `caught by TEST: TITLE`, and its lines as in a
 * diff, `-` before the text that it finds and `+` before the one that it puts there.
 */
import { readFileSync } from 'node:fs';
import { WITHOUT_MUTANT } from '../guarantees/held-by.js';
import { markdownTable } from '../guarantees/markdown-table.js';

export interface Mutant {
  name: string;
  file: string;
  /** Occurs exactly once in the file. */
  find: string;
  replace: string;
  /** The test that must fail, and its title or a part of it. */
  test: string;
  title: string;
}

const OF_FILE = /^# (.+)\n([^]+?)\n$/gm;
const CHANGE = /^([^-+].*)\n {2}caught by (\S+): (.+)\n((?:-.*\n?)+)((?:\+.*\n?)*)/gm;

/** The text of lines that each begin with a mark. */
const unmarked = (lines = '') => lines.trimEnd().replaceAll(/^[-+]/gm, '');

function mutantsIn(list: string): Mutant[] {
  return [...list.matchAll(OF_FILE)].flatMap(([, file = '', changes = '']) =>
    [...changes.matchAll(CHANGE)].map(([, name = '', test = '', title = '', removed, added]) => {
      return { name, file, find: unmarked(removed), replace: unmarked(added), test, title };
    }),
  );
}

const LIST = readFileSync(new URL('mutants.txt', import.meta.url), 'utf8');

export const MUTANTS = mutantsIn(LIST);
if (MUTANTS.length !== LIST.match(/^ {2}caught by/gm)?.length) throw new Error('mutants.txt is not in its format');

/** The tables of test/chaos/mutants.md, by their markers. */
export const mutantTables = () => ({
  mutants: mutantTable(),
  without: markdownTable(['promise', 'no mutant, for'], Object.entries(WITHOUT_MUTANT)),
});

/** By the test that catches them. */
function mutantTable(): string {
  const caught = new Map<string, string[]>();
  for (const { test, name } of MUTANTS) caught.set(test, [...(caught.get(test) ?? []), name]);
  return markdownTable(
    ['this catches', 'the product with …'],
    [...caught].map(([test, names]) => [`\`${test}\``, names.join('; ')]),
  );
}
