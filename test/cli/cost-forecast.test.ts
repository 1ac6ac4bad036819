import { describe, expect, test } from 'vitest';
import { jsonLines, runCli } from './run-cli.js';

/** No server is there. */
const env = { TEMPORAL_ADDRESS: '127.0.0.1:1' };
const forecast = (...args: string[]) => runCli(['cost', '--forecast', ...args], { env });

interface Forecast {
  reads: number;
  parts: { part: string; count: number; actionsEach: number }[];
  perJob: { billableActions: number; historyEvents: number };
  perDay: { billableActions: number };
  perMonth: { billableActions: number };
}

async function forecastOf(...args: string[]): Promise<Forecast> {
  const { stdout } = await forecast('--jobs-per-day', '1000', ...args, '--json');
  return jsonLines(stdout)[0] as unknown as Forecast;
}

describe('cost --forecast', { timeout: 120_000 }, () => {
  test('needs no server, and its parts add up to what a job, a day and a month cost', async () => {
    const { parts, perJob, perDay, perMonth } = await forecastOf('--length', '24 hours', '--follow-ups', '2');
    const sum = parts.reduce((all, { count, actionsEach }) => all + count * actionsEach, 0);
    expect(perJob.billableActions).toBe(sum);
    expect(perDay.billableActions).toBe(1_000 * sum);
    expect(perMonth.billableActions).toBe(30_000 * sum);
  });

  test('a job that ends before its first poll costs 8 actions and 21 events', async () => {
    expect(await forecastOf('--length', '0')).toMatchObject({
      reads: 1,
      perJob: { billableActions: 8, historyEvents: 21 },
    });
  });

  test('where the requests are limited, each further poll is an attempt', async () => {
    const plan = ['--poll-min', '10 seconds', '--poll-max', '10 seconds', '--rate-limited'];
    const { reads, parts, perJob } = await forecastOf('--length', '60 seconds', ...plan);
    expect(reads).toBe(7);
    expect(parts).toContainEqual({ part: 'further attempts to poll', count: 6, actionsEach: 1 });
    expect(perJob.billableActions).toBe(14);
  });

  test('the whole life of a job of ten years is added up at once', async () => {
    const { reads } = await forecastOf('--length', '10 years', '--poll-max', '2 seconds');
    expect(reads).toBeGreaterThan(150_000_000);
  });

  test('is shown to people part by part', async () => {
    const { stdout, code } = await forecast('--jobs-per-day', '1000', '--length', '10 minutes');
    expect(stdout).toMatch(/^Jobs a day +1,000\nLength +600 s\nReads +47 a job, 2 to 60 s apart, ratio 0\.1\n/);
    expect(stdout).toMatch(/\ncreate: the activity and its fence +1 +2 +2\n/);
    expect(stdout).toMatch(/\n +A JOB +A DAY +A MONTH \(30 DAYS\)\nbillable actions +\d/);
    expect(code).toBe(0);
  });

  test.each([
    [[], '--forecast needs --jobs-per-day'],
    [['--jobs-per-day', '5'], '--forecast needs --length'],
    [['--jobs-per-day', '0', '--length', '1h'], '--jobs-per-day must be a whole number, 1 to 1,000,000,000'],
    [['--jobs-per-day', '5', '--length', 'soon'], '--length must be a number of milliseconds or a string such as'],
    [['--jobs-per-day', '5', '--length', '1h', '--follow-ups', '-1'], '--follow-ups must be a whole number'],
    [['--jobs-per-day', '5', '--length', '1h', '--poll-ratio', 'x'], '--poll-ratio must be a number'],
    [
      ['--jobs-per-day', '5', '--length', '1h', '--poll-min', '5m', '--poll-max', '1m'],
      'polling.min must not be above polling.max',
    ],
    [['--jobs-per-day', '5', '--length', '1h', '--project', 'p'], '--forecast goes without a workflow id'],
  ])('%j says what is wrong', async (args, text) => {
    const { code, stderr } = await forecast(...args);
    expect(stderr).toContain(text);
    expect(code).toBe(2);
  });
});
