/**
 * What the pages name is there: each path, each symbol in the file that a page gives for it, each page and heading of a
 * link. The drawing of the rooms is that of the import table, and the pages are short.
 */
import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseSync, Visitor } from 'rolldown/utils';
import { expect, test } from 'vitest';
import { projectFiles } from '../support/project-files.js';
import { arrowsLeft } from './check-imports.js';
import { IMPORT_RULES } from './import-rules.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** Not `deploy`: pages name secrets there that are never committed, and kubectl calls Deployments so. */
const FOLDERS = 'src|test|docs|bench|scripts|examples|packages';

/** Files that git knows or would add: what lies in ignored folders is no part of the repository. */
const files = projectFiles();
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

// The changelog names paths of before, too.
const pages = files.filter((file) => file.endsWith('.md') && file !== 'CHANGELOG.md');
const readPage = (page: string): string => readFileSync(ROOT + page, 'utf8');

test.each(pages)('%s names only paths and symbols that are there', (page) => {
  expect(mistakesIn(readPage(page))).toEqual([]);
});

test('the pages name hundreds of paths, and many symbols', () => {
  const named = pages.map((page) => namedIn(readPage(page)));
  expect(named.flatMap(({ paths }) => paths).length).toBeGreaterThan(200);
  expect(named.flatMap(({ symbols }) => symbols).length).toBeGreaterThan(60);
});

test('the map of owners names each file with a symbol of it', () => {
  const map = /^## Where is it decided\?\n([^]*?)^## /m.exec(readPage('docs/architecture.md'))![1]!;
  const { paths, symbols } = namedIn(map);
  expect(symbols.length).toBeGreaterThan(30);
  expect(symbols.map(({ path }) => path).toSorted()).toEqual(paths.toSorted());
});

test('the drawing of the rooms shows the imports that the table allows, but those that follow from others', () => {
  const drawing = /```mermaid\n([^]*?)```/.exec(readPage('docs/architecture.md'))![1]!;
  const arrows = [...drawing.matchAll(/^ +([\w-]+) --> (.*)$/gm)].flatMap(([, room, to]) =>
    to!.split(' & ').map((one) => `${room} --> ${one}`),
  );
  expect(arrows.toSorted()).toEqual(arrowsLeft(IMPORT_RULES).toSorted());
});

/** The anchors that GitHub gives the headings of a page. */
function anchorsOf(page: string): Set<string> {
  const headings = [...page.replace(/```[^]*?```/g, '').matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading!);
  return new Set(
    headings.map((one) =>
      one
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}

/** The links of a page that lead nowhere; those to the web are not followed. */
function brokenLinks(page: string, text: string): string[] {
  const links = [...text.replace(/```[^]*?```/g, '').matchAll(/(?:\]\(|^\[\w+\]: )([^)\s]+)/gm)].map(([, to]) => to!);
  return links.filter((link) => {
    if (/^(https?|mailto):/.test(link)) return false;
    const [path = '', anchor] = link.split('#');
    const target = path === '' ? page : posix.join(posix.dirname(page), path);
    if (!known.has(target.replace(/\/$/, ''))) return true;
    return anchor !== undefined && !anchorsOf(readPage(target)).has(anchor);
  });
}

test.each(pages.filter((page) => !page.startsWith('packages/')))(
  'each link of %s leads to a page and a heading',
  (page) => {
    expect(brokenLinks(page, readPage(page))).toEqual([]);
  },
);

test('a link to what is not there is found', () => {
  const text = '[a](contract.md#state) [b](contract.md#nothing) [c](nothing.md) [d](../src/) [e](#nothing)';
  expect(brokenLinks('docs/client.md', text)).toEqual(['contract.md#nothing', 'nothing.md', '#nothing']);
});

/** The rows of promises and mutants, and the client's public surface. A changelog only grows. */
const UNCOUNTED = ['docs/promises.md', 'test/chaos/mutants.md', 'packages/client/api-report.md', 'CHANGELOG.md'];
const MAX_WORDS = 22_600;
const MAX_PAGES = 15;

test('the pages are few and short', () => {
  const written = files.filter((file) => file.endsWith('.md') && !UNCOUNTED.includes(file));
  const words = written.map((page) => readPage(page).split(/\s+/).filter(Boolean).length);
  expect(words.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(MAX_WORDS);
  const forReaders = files.filter((file) => file === 'README.md' || /^docs\/[\w-]+\.md$/.test(file));
  expect(forReaders.length).toBeLessThanOrEqual(MAX_PAGES);
});

test('the README has the command that runs a job, and the one that tests all promises', () => {
  expect(readPage('README.md')).toMatch(/^npm ci && npm start$[^]*^npm test$/m);
});

test('the walk of a throttled create opens at most 20 files, and turns back at most twice', () => {
  const walk = readPage('docs/guarantees.md').split('## One throttled create')[1]!.split('\n\nWhat ends each wait')[0]!;
  const opened = namedIn(walk).paths.filter((path, i, all) => path !== all[i - 1]);
  const files = new Set(opened);
  expect(files.size).toBeGreaterThan(15);
  expect(files.size).toBeLessThanOrEqual(20);
  expect(opened.length - files.size).toBeLessThanOrEqual(2);
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
