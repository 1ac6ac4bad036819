import { defineSearchAttributeKey } from '@temporalio/common';
import { expect, test } from 'vitest';
import { SEARCH_ATTRIBUTE, shownStatus } from '../../src/contract.js';
import { throttled } from '../support/outcomes.js';
import { useDevServer } from '../support/job-tests.js';

const { upstream, bench } = useDevServer();

test('a status is shown by its first 64 characters, none of them halved and none that steers', () => {
  expect(shownStatus('😀'.repeat(100))).toBe('😀'.repeat(64));
  expect(shownStatus(`${'a'.repeat(63)}😀b`)).toBe(`${'a'.repeat(63)}😀`);
  expect(shownStatus('a\u0000b\u001b[31mc\u0085')).toBe('a b [31mc ');
  expect(shownStatus('half \ud83d')).toBe('half \ufffd');
});

test('control characters of the upstream reach no search attribute', async () => {
  upstream.show = () => ({ status: 'acti\u0000ve', prLink: 'https://pr/\u0000' });
  const handle = await bench.start({ projectId: 'shown-texts', jobId: 'job-1' });
  const shown = async (name: 'status' | 'prLink') => {
    const { typedSearchAttributes } = await handle.describe();
    return typedSearchAttributes.get(defineSearchAttributeKey(SEARCH_ATTRIBUTE[name], 'KEYWORD'));
  };
  await expect.poll(() => shown('status')).toBe('acti ve');
  expect(await shown('prLink')).toBeUndefined();
});

test('the summary of a wait is cut between characters, at the bytes that Temporal shows', async () => {
  upstream.createFaults.push(throttled('😀é'.repeat(80), 60_000));
  const handle = await bench.start({ projectId: 'shown-texts', prompt: 'Fix it' });
  const summaries = async () => {
    const { events } = await handle.fetchHistory();
    const timers = events!.filter((e) => e.timerStartedEventAttributes);
    return timers.map(
      ({ userMetadata }) => JSON.parse(new TextDecoder().decode(userMetadata!.summary!.data!)) as string,
    );
  };
  await expect.poll(summaries).toHaveLength(1);
  const [summary] = await summaries();
  expect(summary).toMatch(/^Wait for a turn \(place 1\), then ask again: 😀é/);
  expect(summary!.isWellFormed()).toBe(true);
  expect(Buffer.byteLength(summary!)).toBeGreaterThan(190);
  expect(Buffer.byteLength(summary!)).toBeLessThanOrEqual(200);
});
