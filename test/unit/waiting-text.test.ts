import { expect, test } from 'vitest';
import { WAITING_FOR, type Waiting } from '../../src/contract.js';
import { lastingWait, waitRemedy, waitTimes } from '../../src/agent-job/waiting-text.js';

const SINCE = '2026-01-01T12:00:00.000Z';
const UNTIL = '2026-01-01T13:00:00.000Z';
const wait = (what: Waiting['for'], more: Partial<Waiting> = {}): Waiting => ({ for: what, since: SINCE, ...more });

test('every wait that may last says what to do, and no other', () => {
  const told = WAITING_FOR.filter((what) => waitRemedy(wait(what), 'shop') !== undefined);
  expect(told).toEqual(['turn', 'rateLimit', 'upstream', 'key', 'person']);
  expect(WAITING_FOR.filter((what) => lastingWait(wait(what)) !== undefined)).toEqual(told);
});

test('whoever has a place in a queue is told the command that shows it, for any project', () => {
  expect(waitRemedy(wait('turn', { position: 3 }), 'shop')).toContain('"npx agent-jobs queue --project shop"');
  expect(waitRemedy(wait('rateLimit', { position: 3 }), "a b'; rm")).toContain(`--project 'a b'\\''; rm'`);
  expect(waitRemedy(wait('turn'), 'shop')).toBe('it goes on by itself');
});

test('a turn is expected, every other wait ends', () => {
  expect(waitTimes(wait('turn', { until: UNTIL, position: 3 }))).toBe(`since ${SINCE}, position 3, expected ${UNTIL}`);
  expect(waitTimes(wait('rateLimit', { until: UNTIL }))).toBe(`since ${SINCE}, until ${UNTIL}`);
  expect(waitTimes(wait('key'), (iso) => iso.slice(11, 16))).toBe('since 12:00');
});
