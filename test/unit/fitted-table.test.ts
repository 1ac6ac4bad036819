import fc from 'fast-check';
import { expect, test } from 'vitest';
import { cutTo, fittedTable, table, textWidth } from '../../src/cli/table.js';

const COLUMNS = [
  { heading: 'ID', least: 8, isCutInMiddle: true },
  { heading: 'PHASE' },
  { heading: 'STARTED' },
  { heading: 'LINK', least: 6 },
];
const ROW = ['agent-job/acme/a-key-of-some-length', 'watching', '5 min ago', 'https://example.com/pull/1'];

test('a table that fits is not cut', () => {
  expect(fittedTable(COLUMNS, [ROW], 120)[1]).toBe(ROW.join('  '));
});

test('on a narrower terminal long cells are cut, then columns left out, the last first', () => {
  const [, cut] = fittedTable(COLUMNS, [ROW], 60);
  expect(cut).toMatch(/^agent-j.+….+length {2}watching {2}5 min ago {2}https.*…$/);
  const [headings, row] = fittedTable(COLUMNS, [ROW], 30);
  expect(headings).toMatch(/^ID +PHASE +STARTED$/);
  expect(row).toMatch(/^.+….+ {2}watching {2}5 min ago$/);
  expect(fittedTable(COLUMNS, [ROW], 20)[0]).toMatch(/^ID +PHASE$/);
});

test('no line is wider than the terminal, whatever the cells hold', () => {
  const cell = fc.string({ unit: 'grapheme', maxLength: 60 });
  const rows = fc.array(fc.tuple(cell, cell, cell, cell), { maxLength: 5 });
  fc.assert(
    fc.property(rows, fc.integer({ min: 10, max: 200 }), (cells, width) => {
      for (const line of fittedTable(COLUMNS, cells, width)) expect(textWidth(line)).toBeLessThanOrEqual(width);
    }),
  );
});

test('control characters and wide ones do not move the columns', () => {
  const rows = [
    ['a\u001B[2Jb', 'x', '', ''],
    ['日本', 'x', '', ''],
  ];
  const [, first, second] = fittedTable(COLUMNS, rows, 80);
  expect(first).toBe('a [2Jb  x');
  expect(second).toBe('日本    x');
});

test('a text is cut to the places that there are', () => {
  expect(cutTo('abcdef', 6)).toBe('abcdef');
  expect(cutTo('abcdef', 4)).toBe('abc…');
  expect(cutTo('abcdef', 5, true)).toBe('ab…ef');
  expect(cutTo('日本語', 4)).toBe('日…');
});

test('a table for a program is aligned by places: wide characters take two of them', () => {
  const rows = [
    ['日本', 'x'],
    ['abc', 'y'],
  ];
  expect(table(['A', 'B'], rows)).toBe('A     B\n日本  x\nabc   y');
});
