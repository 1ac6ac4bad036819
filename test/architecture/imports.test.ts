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
import { readModuleGraph } from './module-graph.js';

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
