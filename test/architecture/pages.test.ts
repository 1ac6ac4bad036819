/** What the pages name is there: each path in the repository, and each symbol in the file that a page gives for it. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseSync, Visitor } from 'rolldown/utils';
import { expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** Not `deploy`: pages name secrets there that nobody commits, and kubectl calls Deployments so. */
const FOLDERS = 'src|test|docs|bench|scripts|examples|packages';

/** Files that git knows or would add: what lies in ignored folders is no part of the repository. */
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '--deduplicate'], {
  cwd: ROOT,
  encoding: 'utf8',
})
  .trim()
  .split('\n');
const folders = new Set(files.flatMap((file) => [...file.matchAll(/\//g)].map(({ index }) => file.slice(0, index))));
const known = new Set([...files, ...folders]);

interface Named {
  paths: string[];
  symbols: { symbol: string; path: string }[];
}

/**
 * The paths of a page, in text, code and links, and the symbols that it gives a file for: `symbol` in `path`, and
 * `symbol` (`path`). Left out are patterns (`test/**`), placeholders (`src/<room>`) and paths below another folder.
 */
function namedIn(page: string): Named {
  const path = `(?:${FOLDERS})/[\\w./*<>{}$…-]*`;
  const found = [...page.matchAll(new RegExp(`(?<![\\w./@-])(?:\\.\\./)*(${path})`, 'g'))].map(([, one]) => one!);
  const inFile = new RegExp(`\`(\\w+)(?:\\(\\))?\`\\s+(?:in\\s+|\\()\`((?:${FOLDERS})/[^\`]*\\.(?:ts|mjs))\``, 'g');
  return {
    paths: found.filter((one) => !/[*<>{}$…]/.test(one)).map((one) => one.replace(/[./]+$/, '')),
    symbols: [...page.matchAll(inFile)].map(([, symbol, file]) => ({ symbol: symbol!, path: file! })),
  };
}

/** All names that a file declares: of values and types, of their members, and of what it hands on. */
function declaredIn(text: string): Set<string> {
  const names = new Set<string>();
  type Name = { type: string; name?: unknown } | null;
  const add = (node: Name): void => void (node?.type === 'Identifier' && names.add(String(node.name)));
  const addId = (node: { id: Name }): void => add(node.id);
  const addKey = (node: { key: Name }): void => add(node.key);
  new Visitor({
    VariableDeclarator: addId,
    FunctionDeclaration: addId,
    ClassDeclaration: addId,
    TSInterfaceDeclaration: addId,
    TSTypeAliasDeclaration: addId,
    MethodDefinition: addKey,
    TSMethodSignature: addKey,
    TSPropertySignature: addKey,
    Property: addKey,
    ExportSpecifier: ({ exported }) => add(exported),
  }).visit(parseSync('file.ts', text).program);
  return names;
}

/** What a page names wrongly. */
function mistakesIn(page: string): string[] {
  const { paths, symbols } = namedIn(page);
  const declares = (path: string, symbol: string): boolean =>
    known.has(path) && declaredIn(readFileSync(ROOT + path, 'utf8')).has(symbol);
  return [
    ...paths.filter((path) => !known.has(path)).map((path) => `no ${path}`),
    ...symbols.filter(({ path, symbol }) => !declares(path, symbol)).map((one) => `no ${one.symbol} in ${one.path}`),
  ];
}

// The changelog also tells what was where before.
const pages = files.filter((file) => file.endsWith('.md') && file !== 'CHANGELOG.md');
const readPage = (page: string): string => readFileSync(ROOT + page, 'utf8');

test.each(pages)('%s names only paths and symbols that are there', (page) => {
  expect(mistakesIn(readPage(page))).toEqual([]);
});

test('the pages name hundreds of paths, and some symbols', () => {
  const named = pages.map((page) => namedIn(readPage(page)));
  expect(named.flatMap(({ paths }) => paths).length).toBeGreaterThan(300);
  expect(named.flatMap(({ symbols }) => symbols).length).toBeGreaterThan(5);
});

test('the walk of a refused create opens at most 25 files, and turns back at most five times', () => {
  const walk = readPage('docs/guarantees.md').split('## One refused create')[1]!.split('\n\nWhat ends each wait')[0]!;
  const opened = namedIn(walk).paths.filter((path, i, all) => path !== all[i - 1]);
  const files = new Set(opened);
  expect(files.size).toBeGreaterThan(15);
  expect(files.size).toBeLessThanOrEqual(25);
  expect(opened.length - files.size).toBeLessThanOrEqual(5);
});

test('what is not there is found, wherever and however a page names it', () => {
  const right =
    '`LIMIT` in `src/contract/shared.ts`, `src/client/`, test/architecture. [rules](../docs/contract.md#state)';
  expect(mistakesIn(right)).toEqual([]);
  const wrong = [
    ...['`src/nowhere.ts`', 'npx vitest run test/nowhere', '[a page](../docs/nowhere.md#part)'],
    ...['`LIMIT`\nin `src/worker.ts`', '`ending()` (`src/contract/shared.ts`)', '`LIMIT` in `src/nowhere.ts`'],
  ];
  expect(wrong.flatMap(mistakesIn)).toEqual([
    ...['no src/nowhere.ts', 'no test/nowhere', 'no docs/nowhere.md'],
    ...['no LIMIT in src/worker.ts', 'no ending in src/contract/shared.ts'],
    ...['no src/nowhere.ts', 'no LIMIT in src/nowhere.ts'],
  ]);
});

test('patterns, placeholders and paths below another folder are left out', () => {
  const left = '`test/**/*.ts` `src/<room>` docs/{a,b}.md `docs/….md` node_modules/x/src/y.ts https://a.b/src/c';
  expect(namedIn(left)).toEqual({ paths: [], symbols: [] });
});

test('settings of other programs give the command line a path: no public registry has it', () => {
  const settings = pages.flatMap((page) => [...readPage(page).matchAll(/^.*"command".*$/gm)].map(([line]) => line));
  expect(settings.length).toBeGreaterThan(0);
  expect(settings.filter((line) => line.includes('npx'))).toEqual([]);
});

test('README names the interface that is driven, with its four calls', () => {
  const section = /^## The upstream that this drives\n(.*?)^## /ms.exec(readPage('README.md'))?.[1] ?? '';
  expect(section.replaceAll(/\s+/g, ' ')).toContain('Background Agent Job and Visitor Analytics Interface');
  const { length: calls } = section.match(/`(GET|POST) /g) ?? [];
  expect(calls).toBe(4);
});
