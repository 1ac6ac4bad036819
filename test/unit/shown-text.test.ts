import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  jsonLine,
  lastingWait,
  printable,
  printableLines,
  waitRemedy,
  waitTimes,
} from '../../src/agent-job/shown-text.js';
import type { Waiting } from '../../src/contract.js';

/** Control characters, line separators, and what turns the direction of writing. */
const UNSAFE = /[\p{Cc}\u2028\u2029\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/u;
const HOSTILE = ['\u001B[2J', '\u001B]0;title\u0007', '\u009B31m', '\u0085', '\u007F', '\u0000', '\r', '\u2028'];
const TURNING = ['\u202A', '\u202B', '\u202C', '\u202D', '\u202E', '\u2066', '\u2067', '\u2068', '\u2069', '\u200F'];

const anyText = fc.string({
  unit: fc.oneof(
    fc.constantFrom(...HOSTILE, ...TURNING, '\n', '"', '\\', 'é', '日', '👩‍🚀'),
    fc.string({ unit: 'binary' }),
  ),
});

test.each([...HOSTILE, ...TURNING])('%j does not reach a terminal', (text) => {
  expect(printable(`before${text}after`)).not.toMatch(UNSAFE);
  expect(printable(`before${text}after`)).toMatch(/^before .*after$/);
});

test('no text reaches a terminal with anything but what it shows; lines stay lines where they may', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      expect(printable(text)).not.toMatch(UNSAFE);
      expect(printableLines(text).replaceAll('\n', '')).not.toMatch(UNSAFE);
      expect(printableLines(text).split('\n')).toHaveLength(text.split('\n').length);
    }),
  );
});

test('text without such characters stays as it is, whatever its writing', () => {
  for (const text of ['Mend the footer', 'שלום עולם', 'مرحبا', '日本語', '👩‍🚀 e\u0301', '']) {
    expect(printable(text)).toBe(text);
    expect(printableLines(`${text}\n${text}`)).toBe(`${text}\n${text}`);
  }
});

test('JSON is one line that a terminal only shows, and a parser reads the same value', () => {
  fc.assert(
    fc.property(anyText, anyText, (name, text) => {
      const line = jsonLine({ [name]: [text] });
      expect(line).not.toMatch(UNSAFE);
      expect(Object.entries(JSON.parse(line) as object)).toEqual([[name, [text]]]);
    }),
  );
});

const SINCE = '2026-01-01T12:00:00.000Z';
const UNTIL = '2026-01-01T13:00:00.000Z';
const wait = (what: Waiting['for'], more: Partial<Waiting> = {}): Waiting => ({ for: what, since: SINCE, ...more });

test('a wait of a later release is one without words', () => {
  const later = wait('window' as Waiting['for']);
  expect([lastingWait(later), waitRemedy(later, 'shop')]).toEqual([undefined, undefined]);
});

test('a wait with a place in a queue names the command that shows the place, for any project', () => {
  expect(waitRemedy(wait('turn', { position: 3 }), 'shop')).toContain('"npx agent-jobs queue --project shop"');
  expect(waitRemedy(wait('rateLimit', { position: 3 }), "a b'; rm")).toContain(`--project 'a b'\\''; rm'`);
  expect(waitRemedy(wait('turn'), 'shop')).toBe('it goes on by itself');
});

test('a turn is expected, every other wait ends', () => {
  expect(waitTimes(wait('turn', { until: UNTIL, position: 3 }))).toBe(`since ${SINCE}, position 3, expected ${UNTIL}`);
  expect(waitTimes(wait('rateLimit', { until: UNTIL }))).toBe(`since ${SINCE}, until ${UNTIL}`);
  expect(waitTimes(wait('key'), (iso) => iso.slice(11, 16))).toBe('since 12:00');
});
