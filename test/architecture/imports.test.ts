import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import {
  circles,
  fileArrows,
  forbiddenImports,
  reachMistakes,
  roomArrows,
  uncoveredFiles,
  unusedRules,
} from './check-imports.js';
import { IMPORT_RULES, REACH_RULES } from './import-rules.js';
import { importsOf, type ModuleGraph, readModuleGraph } from './module-graph.js';

// The check is our own: dependency-cruiser needs Node 22 and a compiler API that TypeScript 7 does not have, and lint
// rules can report neither an allowance that nothing uses nor a file that no rule covers.
const src = readModuleGraph(fileURLToPath(new URL('../../src', import.meta.url)));

describe('the rooms of src', () => {
  test('import only what the table of import rules allows', () => {
    expect(forbiddenImports(src, IMPORT_RULES)).toEqual([]);
  });

  test('use every rule of the table', () => {
    expect(unusedRules(src, IMPORT_RULES)).toEqual([]);
  });

  test('are all in the table, with every file', () => {
    expect(uncoveredFiles(src, IMPORT_RULES)).toEqual([]);
  });

  test('form no circle, not even of types', () => {
    expect(circles(roomArrows(src))).toEqual([]);
  });

  test('are at most 20, with at most 74 arrows between them', () => {
    const arrows = [...roomArrows(src).values()];
    expect(arrows.length).toBeLessThanOrEqual(20);
    expect(arrows.reduce((sum, { size }) => sum + size, 0)).toBeLessThanOrEqual(74);
  });

  test('stand in the table below all rooms that they import', () => {
    const order = Object.keys(IMPORT_RULES);
    const upward = [...roomArrows(src)].flatMap(([room, targets]) =>
      [...targets].filter((to) => order.indexOf(to) > order.indexOf(room)).map((to) => `${room} → ${to}`),
    );
    expect(upward).toEqual([]);
  });
});

describe('the files of src', () => {
  test('form no circle of values', () => {
    expect(circles(fileArrows(src))).toEqual([]);
  });

  test.each(REACH_RULES)('$entry loads just the packages of its rule (lazy imports: $lazy)', (rule) => {
    expect(reachMistakes(src, rule)).toEqual([]);
  });
});

describe('the check of imports', () => {
  const graph = (files: Record<string, string>): ModuleGraph =>
    new Map(Object.entries(files).map(([file, source]) => [file, importsOf(file, source)]));

  test.each([
    ["import { a } from '../b/b.js';", 'values'],
    ["import '../b/b.js';", 'values'],
    ["import { type A } from '../b/b.js';", 'values'],
    ["export { a } from '../b/b.js';", 'values'],
    ["export * from '../b/b.js';", 'values'],
    ["const b = await import('../b/b.js');", 'values'],
    ["import type { A } from '../b/b.js';", 'types'],
    ["export type { A } from '../b/b.js';", 'types'],
    ["let a: import('../b/b.js').A;", 'types'],
  ])('sees %s', (source, kind) => {
    const files = graph({ 'a/a.ts': source, 'b/b.ts': '' });
    expect(forbiddenImports(files, { a: {}, b: {} })).toEqual([`a/a.ts imports ${kind} of b`]);
    expect(forbiddenImports(files, { a: { values: 'b' }, b: {} })).toEqual([]);
    expect(forbiddenImports(files, { a: { types: 'b' }, b: {} })).toHaveLength(kind === 'types' ? 0 : 1);
  });

  test('names packages without their inner paths, and Node as one', () => {
    const files = graph({ 'a.ts': "import '@x/y/z.js'; import 'ky/lib'; import 'node:fs/promises';" });
    expect(forbiddenImports(files, { a: {} })).toEqual([
      'a.ts imports values of @x/y',
      'a.ts imports values of ky',
      'a.ts imports values of node',
    ]);
    expect(forbiddenImports(files, { a: { packages: '@x/y ky node' } })).toEqual([]);
  });

  test('reports rules that nothing uses, and files without a rule', () => {
    const files = graph({ 'a.ts': "import type { B } from './b/b.js';", 'b/b.ts': '' });
    const rules = { a: { values: 'b', types: 'b', packages: 'ky' } };
    expect(unusedRules(files, rules)).toEqual(['a → b', 'a → ky']);
    expect(uncoveredFiles(files, rules)).toEqual(['b/b.ts']);
  });

  test('reports a circle once, with its way', () => {
    const files = graph({ 'a.ts': "import './b.js';", 'b.ts': "import './c.js';", 'c.ts': "import './a.js';" });
    expect(circles(fileArrows(files))).toEqual(['a.ts → b.ts → c.ts → a.ts']);
    expect(circles(roomArrows(files))).toEqual(['a → b → c → a']);
  });

  test('finds a package that is loaded on a way through other files, and one that is not', () => {
    const files = graph({
      'a.ts': "import './b.js'; import('./c.js');",
      'b.ts': "import 'ky';",
      'c.ts': "import 'ms';",
    });
    expect(reachMistakes(files, { entry: 'a.ts', lazy: false, packages: 'zod' })).toEqual([
      'a.ts loads ky',
      'a.ts does not load zod',
    ]);
    expect(reachMistakes(files, { entry: 'a.ts', lazy: true, packages: 'ky ms' })).toEqual([]);
  });
});
