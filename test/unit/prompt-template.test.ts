import { expect, test } from 'vitest';
import { renderPrompt } from '../../src/agent-job/recurring-input.js';

const AT = Date.parse('2026-03-10T23:30:00Z');

test('placeholders are the scheduled time, in the time zone; scheduledAt is in UTC', () => {
  const template = 'On {date} at {time} in {timeZone} ({scheduledAt})';
  expect(renderPrompt(template, AT, 'Europe/Paris')).toBe(
    'On 2026-03-11 at 00:30 in Europe/Paris (2026-03-10T23:30:00.000Z)',
  );
  expect(renderPrompt(template, AT, 'America/Los_Angeles')).toContain('On 2026-03-10 at 16:30');
});

test('a doubled brace is a brace, whatever stands between', () => {
  expect(renderPrompt('{{"date": "{date}"}}', AT, 'UTC')).toBe('{"date": "2026-03-10"}');
  expect(renderPrompt('{{{date}}} {{{{date}}}} $& $1', AT, 'UTC')).toBe('{2026-03-10} {{date}} $& $1');
});

test.each([
  ['on {day}', 'unknown placeholder at character 4'],
  ['{constructor}', 'unknown placeholder at character 1'],
  ['{ "a": 1 }', 'lone brace at character 1'],
  ['done }', 'lone brace at character 6'],
  ['{date', 'lone brace at character 1'],
  ['{}', 'lone brace at character 1'],
])('any other brace is an error that tells its place and the rule, and not the prompt: %s', (template, problem) => {
  const render = () => renderPrompt(template, AT, 'UTC');
  expect(render).toThrow(problem);
  expect(render).toThrow('write {{ and }} for a brace of your own');
  expect(render).not.toThrow('day');
});

test.each([
  // In Paris 02:30 comes twice on the 25th of October 2026, and not at all on the 29th of March.
  ['2026-10-25T00:30:00Z', '2026-10-25 02:30'],
  ['2026-10-25T01:30:00Z', '2026-10-25 02:30'],
  ['2026-03-29T01:30:00Z', '2026-03-29 03:30'],
  ['2026-03-28T23:00:00Z', '2026-03-29 00:00'],
])('%s is %s on the clocks of Paris', (utc, local) => {
  expect(renderPrompt('{date} {time}', Date.parse(utc), 'Europe/Paris')).toBe(local);
});
