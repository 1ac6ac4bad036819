import { readFile } from 'node:fs/promises';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { expect, test } from 'vitest';
import '../support/quiet-runtime.js';
import { bugsIn } from './task-failures.js';

/** A queue's history. One task failed: a query had reached that worker while another one held a task, and died. */
const text = await readFile(new URL('./spoilt-copy.json', import.meta.url), 'utf8');
const bugsOf = (json: string) => bugsIn('request-queue/p/create', historyFromJSON(JSON.parse(json)));

test('a task that failed at a spoilt copy is no bug if its history fits the code', async () => {
  expect(text).toContain('Nondeterminism error');
  expect(await bugsOf(text)).toEqual([]);
});

test('a task that failed at a history which other code has made is a bug', async () => {
  const other = text
    .replace('EVENT_TYPE_TIMER_STARTED', 'EVENT_TYPE_ACTIVITY_TASK_SCHEDULED')
    .replace('timerStartedEventAttributes', 'activityTaskScheduledEventAttributes');
  expect(await bugsOf(other)).toEqual([expect.stringContaining('Nondeterminism error')]);
});
