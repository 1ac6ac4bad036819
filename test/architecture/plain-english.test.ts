/** Comments and pages name their nouns: they seldom say "whoever", and seldom begin a sentence with "Of" or "Where". */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseSync } from 'rolldown/utils';
import { expect, test } from 'vitest';
import { projectFiles } from '../support/project-files.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const MAX_HITS = 40;

const WORDS = /\b(?:whoever|nobody|somebody|of which)\b/gi;
/** A number, or "at most N", says more. "As long as" may mean "while". */
const VAGUE = /\b(?:so (?:many|long|often|much|few)|as (?:many|often) as|that (?:long|often))\b/i;
/** After the end of a sentence, of a list's marker, or at the beginning. */
const BEGINNINGS = /(?:^|[.!?][*_"”)]* |: |[-*] (?:\*\*)?|\d\. )(?:Of|Where) /g;
/** Fields in an object of their own that is spread at once only save lines. */
const SAVED_LINES = /\.\.\.\{ .*/g;
/** Written by programs. */
const GENERATED = /api-report\.md$|promises\.md$|mutants\.md$/;

/** What is read as one text: paragraphs of a page, and comments that follow each other. */
function proseOf(file: string, text: string): string[] {
  if (file.endsWith('.md')) return text.replace(/```[^]*?```/g, '').split(/\n\s*\n/);
  if (/\.(?:ts|mts|mjs|js)$/.test(file)) return commentsOf(file, text);
  return [...text.matchAll(/(?:^[ \t]*#.*\n)+/gm)].map(([lines]) => lines.replaceAll(/^[ \t]*#+/gm, ''));
}

function commentsOf(file: string, text: string): string[] {
  const { comments } = parseSync(file, text);
  return comments
    .flatMap(({ type, value, start }, at) => {
      const before = comments[at - 1];
      const goesOn = type === 'Line' && before?.type === 'Line' && text.slice(before.end, start).trim() === '';
      return [goesOn ? value : `\n\n${value.replaceAll(/^[ \t]*\*/gm, '')}`];
    })
    .join('\n')
    .split(/\n\s*\n/);
}

function hitsIn(file: string, text: string): string[] {
  const flat = proseOf(file, text).map((paragraph) => paragraph.replaceAll(/\s+/g, ' ').trim());
  return flat.flatMap((paragraph) =>
    [WORDS, BEGINNINGS].flatMap((pattern) =>
      [...paragraph.matchAll(pattern)].map(
        ({ 0: found, index }) => `${file}: …${paragraph.slice(Math.max(0, index - 10), index + found.length + 60)}…`,
      ),
    ),
  );
}

const files = projectFiles().filter(
  (file) => /\.(?:ts|mts|mjs|js|py|md|ya?ml|sh)$/.test(file) && !GENERATED.test(file),
);

test('comments and pages seldom put a sentence backwards', () => {
  const hits = files.flatMap((file) => hitsIn(file, readFileSync(ROOT + file, 'utf8')));
  expect(hits.length, hits.join('\n')).toBeLessThanOrEqual(MAX_HITS);
});

test('comments give numbers, and objects are written out', () => {
  const sources = files.filter((file) => /^src\/.*\.ts$/.test(file));
  expect(sources.length).toBeGreaterThan(100);
  const vague = sources.flatMap((file) => {
    const text = readFileSync(ROOT + file, 'utf8');
    const flat = commentsOf(file, text).map((paragraph) => paragraph.replaceAll(/\s+/g, ' '));
    const comments = flat.filter((paragraph) => VAGUE.test(paragraph));
    return [...comments, ...(text.match(SAVED_LINES) ?? [])].map((hit) => `${file}: ${hit}`);
  });
  expect(vague).toEqual([]);
});

test('every file of src begins with what it decides', () => {
  const sources = files.filter((file) => /^src\/.*\.ts$/.test(file));
  expect(sources.filter((file) => !/^(?:#!.*\n)?\/\*\*/.test(readFileSync(ROOT + file, 'utf8')))).toEqual([]);
});
