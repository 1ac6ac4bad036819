import { expect, test } from 'vitest';
import { parseExportInput } from '../../src/exports/input.js';
import { isTimeZone, Undecodable } from '../../src/contract/kinds.js';
import { daysBefore, isDate } from '../../src/exports/date-range.js';

const range = { dateFrom: '2026-01-01', dateTo: '2026-01-03' };

test('a range and a Schedule are distinguished, unknown fields ignored, null meaning absent', () => {
  expect(parseExportInput({ projectId: 'p', ...range, timeZone: null, more: 1 })).toEqual({
    kind: 'range',
    range: { projectId: 'p', ...range },
    how: { secondScan: true, priority: 3, giveUpAfterMs: 86_400_000 },
  });
  const scheduled = { kind: 'scheduled', projectId: 'p', timeZone: 'Europe/Paris' };
  expect(parseExportInput({ projectId: 'p', timeZone: 'Europe/Paris' })).toEqual({ ...scheduled, days: 1 });
  expect(parseExportInput({ projectId: 'p', timeZone: 'Europe/Paris', days: 366, dateFrom: null })).toEqual({
    ...scheduled,
    days: 366,
  });
});

test.each<[string, unknown]>([
  ['input', undefined],
  ['input', 'text'],
  ['input', [{}]],
  ['input', new Undecodable()],
  ['projectId', { ...range }],
  ['projectId', { ...range, projectId: 7 }],
  ['projectId', { ...range, projectId: '' }],
  ['projectId', { ...range, projectId: '..' }],
  ['projectId', { ...range, projectId: 'a\u0000' }],
  ['projectId', { ...range, projectId: '日'.repeat(30) }],
  ['dateFrom', { projectId: 'p' }],
  ['dateFrom', { projectId: 'p', dateTo: '2026-01-01' }],
  ['dateTo', { projectId: 'p', dateFrom: '2026-01-01' }],
  ['dateFrom', { projectId: 'p', dateFrom: '2026-02-30', dateTo: '2026-03-01' }],
  ['dateFrom', { projectId: 'p', dateFrom: '2026-1-1', dateTo: '2026-03-01' }],
  ['dateFrom', { projectId: 'p', dateFrom: '2026-01-01T00:00:00Z', dateTo: '2026-03-01' }],
  ['dateFrom', { projectId: 'p', dateFrom: 20260101, dateTo: '2026-03-01' }],
  ['dateTo', { projectId: 'p', dateFrom: '2026-01-01', dateTo: '2026-13-01' }],
  ['dateTo', { projectId: 'p', dateFrom: '2026-01-01', dateTo: '2026-01-01' }],
  ['dateTo', { projectId: 'p', dateFrom: '2026-01-02', dateTo: '2026-01-01' }],
  ['priority', { projectId: 'p', ...range, priority: 0 }],
  ['priority', { projectId: 'p', ...range, priority: '1' }],
  ['secondScan', { projectId: 'p', ...range, secondScan: 'no' }],
  ['giveUpAfter', { projectId: 'p', ...range, giveUpAfter: 'soon' }],
  ['timeZone', { projectId: 'p', ...range, timeZone: 'UTC' }],
  ['timeZone', { projectId: 'p', timeZone: 'Mars/Olympus' }],
  ['timeZone', { projectId: 'p', timeZone: '+01:00' }],
  ['timeZone', { projectId: 'p', timeZone: 1 }],
  ['days', { projectId: 'p', timeZone: 'UTC', days: 0 }],
  ['days', { projectId: 'p', timeZone: 'UTC', days: 367 }],
  ['days', { projectId: 'p', timeZone: 'UTC', days: 1.5 }],
  ['days', { projectId: 'p', timeZone: 'UTC', days: '3' }],
])('wrong %s is refused by name: %j', (field, input) => {
  expect(() => parseExportInput(input)).toThrow(expect.objectContaining({ name: 'InvalidInputError', field }));
});

const at = (time: string, timeZone: string, days = 1) => daysBefore(Date.parse(time), timeZone, days);

test.each([
  // Clocks go forward on 2026-03-29 at 02:00 in Paris, and back on 2026-10-25 at 03:00.
  ['the night after the day of 23 hours', '2026-03-29T22:30:00Z', 'Europe/Paris', '2026-03-29', '2026-03-30'],
  ['half an hour before it ends', '2026-03-29T21:30:00Z', 'Europe/Paris', '2026-03-28', '2026-03-29'],
  ['the night after the day of 25 hours', '2026-10-25T23:30:00Z', 'Europe/Paris', '2026-10-25', '2026-10-26'],
  ['half an hour before it ends', '2026-10-25T22:30:00Z', 'Europe/Paris', '2026-10-24', '2026-10-25'],
  ['the first of the two hours of the night', '2026-10-25T00:30:00Z', 'Europe/Paris', '2026-10-24', '2026-10-25'],
  ['the second of the two hours of the night', '2026-10-25T01:30:00Z', 'Europe/Paris', '2026-10-24', '2026-10-25'],
  // 2026-03-08 and 2026-11-01 in Los Angeles.
  ['the night after the day of 23 hours', '2026-03-09T07:30:00Z', 'America/Los_Angeles', '2026-03-08', '2026-03-09'],
  ['half an hour before it ends', '2026-03-09T06:30:00Z', 'America/Los_Angeles', '2026-03-07', '2026-03-08'],
  ['the night after the day of 25 hours', '2026-11-02T08:30:00Z', 'America/Los_Angeles', '2026-11-01', '2026-11-02'],
  ['half an hour before it ends', '2026-11-02T07:30:00Z', 'America/Los_Angeles', '2026-10-31', '2026-11-01'],
  ['the turn of the year in the east', '2026-12-31T10:30:00Z', 'Pacific/Kiritimati', '2026-12-31', '2027-01-01'],
  ['the leap day', '2028-03-01T00:30:00Z', 'UTC', '2028-02-29', '2028-03-01'],
])('a Schedule that fires in %s exports the local day before: %s in %s', (_, time, timeZone, dateFrom, dateTo) => {
  expect(at(time, timeZone)).toEqual([{ dateFrom, dateTo }]);
});

test('several days come earliest first, without a gap, over a change of the clocks', () => {
  expect(at('2026-03-30T22:30:00Z', 'Europe/Paris', 3)).toEqual([
    { dateFrom: '2026-03-28', dateTo: '2026-03-29' },
    { dateFrom: '2026-03-29', dateTo: '2026-03-30' },
    { dateFrom: '2026-03-30', dateTo: '2026-03-31' },
  ]);
});

test('only days of the calendar are dates, and only names are time zones', () => {
  expect(['2028-02-29', '0001-01-01', '9999-12-31'].every(isDate)).toBe(true);
  expect(['2027-02-29', '2026-00-01', '2026-01-32', '26-01-01', ' 2026-01-01', ''].some(isDate)).toBe(false);
  expect(['UTC', 'Europe/Paris', 'Asia/Kathmandu'].every(isTimeZone)).toBe(true);
  expect(['', 'Z+1', '+00:00', 'Paris', 'Europe/'].some(isTimeZone)).toBe(false);
});
