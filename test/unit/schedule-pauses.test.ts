/** What our client does until the server shows a pause of a Schedule. */
import type { ScheduleHandle } from '@temporalio/client';
import { expect, test } from 'vitest';
import { setPaused } from '../../src/client/schedules.js';

/** A Schedule whose server shows a pause only in its third description; a real one can't be made to. */
function lateSchedule() {
  const calls: string[] = [];
  const before = { state: { paused: false, note: '' } };
  const after = { state: { paused: true, note: 'now' } };
  const handle = {
    pause: async (note: string) => void calls.push(`pause ${note}`),
    describe: async () => (calls.push('describe'), calls.length < 4 ? before : after),
  } as unknown as ScheduleHandle;
  return { calls, handle };
}

test('a pause returns when the server shows it', async () => {
  const { calls, handle } = lateSchedule();
  await setPaused(handle, true, 'now');
  expect(calls).toEqual(['pause now', 'describe', 'describe', 'describe']);
});

test('a pause that was made returns, though the server does not describe the Schedule any more', async () => {
  const { calls, handle } = lateSchedule();
  handle.describe = () => Promise.reject(new Error('gone'));
  await setPaused(handle, true, 'now');
  expect(calls).toEqual(['pause now']);
});
