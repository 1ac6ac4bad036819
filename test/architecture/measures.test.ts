import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseSync, Visitor } from 'rolldown/utils';
import { expect, test } from 'vitest';
import { projectFiles } from '../support/project-files.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const MAX_FILE_LINES = 400;
const MAX_FUNCTION_LINES = 50;
/**
 * A file this short is a step more for a reader; some must be files, because something loads them by path. A workaround
 * of a private part has a file of its own, so that it can go alone.
 */
const SHORT_FILE_LINES = 30;
const MAX_SHORT_FILES = 12;
const MAX_COLUMNS = 120;

/** Files that git knows or would add, so that neither builds nor what lies in ignored folders counts. */
const files = projectFiles();
const inSrc = files.filter((file) => file.startsWith('src/'));

function read(file: string): string {
  return readFileSync(ROOT + file, 'utf8');
}

function lineCount(text: string): number {
  return text.split('\n').length - 1;
}

test('no file of src has more than 400 lines', () => {
  const long = inSrc.filter((file) => lineCount(read(file)) > MAX_FILE_LINES);
  expect(long.map((file) => `${file}: ${lineCount(read(file))}`)).toEqual([]);
});

test('at most 12 files of src have fewer than 30 lines', () => {
  const short = inSrc.filter((file) => !file.includes('/private/') && lineCount(read(file)) < SHORT_FILE_LINES);
  expect(short.length, short.join('\n')).toBeLessThanOrEqual(MAX_SHORT_FILES);
});

/**
 * The functions of a file that have a body of statements: where each begins, and its lines without those inside of it.
 */
function functionSizes(text: string): { at: number; lines: number }[] {
  const linesAt = (offset: number): number => lineCount(text.slice(0, offset));
  const sizes: { at: number; lines: number }[] = [];
  const open: { nested: number }[] = [];
  type Function = { start: number; end: number; body: { type: string } | null };
  const hasStatements = ({ body }: Function): boolean => body !== null && body.type === 'BlockStatement';
  const enter = (node: Function): void => void (hasStatements(node) && open.push({ nested: 0 }));
  const leave = (node: Function): void => {
    if (!hasStatements(node)) return;
    const lines = linesAt(node.end) - linesAt(node.start) + 1;
    sizes.push({ at: linesAt(node.start) + 1, lines: lines - open.pop()!.nested });
    const parent = open.at(-1);
    if (parent) parent.nested += lines;
  };
  new Visitor({
    FunctionDeclaration: enter,
    'FunctionDeclaration:exit': leave,
    FunctionExpression: enter,
    'FunctionExpression:exit': leave,
    ArrowFunctionExpression: enter,
    'ArrowFunctionExpression:exit': leave,
  }).visit(parseSync('file.ts', text).program);
  return sizes;
}

test('no function of src has more than 50 lines of its own', () => {
  const long = inSrc.flatMap((file) =>
    functionSizes(read(file))
      .filter(({ lines }) => lines > MAX_FUNCTION_LINES)
      .map(({ at, lines }) => `${file}:${at}: ${lines}`),
  );
  expect(long).toEqual([]);
});

/**
 * The prose of a page with its line numbers: no table rows, no code, nothing generated, no line that is one long link.
 */
function prose(page: string): { line: string; number: number }[] {
  let isCode = false;
  let isGenerated = false;
  return page.split('\n').flatMap((line, index) => {
    if (line.trimStart().startsWith('```')) isCode = !isCode;
    if (/^<!-- \/?[\w ]+ -->$/.test(line)) isGenerated = !line.startsWith('<!-- /');
    const isProse = !isCode && !isGenerated && !/^\s*\|/.test(line) && /\S\s+\S/.test(line.slice(0, MAX_COLUMNS));
    return isProse ? [{ line, number: index + 1 }] : [];
  });
}

test('no line of source, tests or prose has more than 120 columns', () => {
  const sources = files.filter((file) => /^(src|test|bench|scripts|examples)\/.*\.(ts|mjs|py)$/.test(file));
  const pages = files.filter((file) => file.endsWith('.md'));
  const lines = [
    ...sources.flatMap((file) =>
      read(file)
        .split('\n')
        .map((line, index) => ({ file, line, number: index + 1 })),
    ),
    ...pages.flatMap((file) => prose(read(file)).map(({ line, number }) => ({ file, line, number }))),
  ];
  const wide = lines.filter(({ line }) => line.length > MAX_COLUMNS);
  expect(wide.map(({ file, number, line }) => `${file}:${number}: ${line.length}`)).toEqual([]);
});
