import { Worker } from '@temporalio/worker';
import { expect, test } from 'vitest';
import { shared } from '../support/shared.js';
import { EXPORT_SCENARIOS } from './export-scenarios.js';
import { recordedHistories, type RecordedHistory } from './histories.js';
import { QUEUE_SCENARIOS } from './queue-scenarios.js';
import { SCENARIOS } from './scenarios.js';
import { VERSION_SCENARIOS } from './version-scenarios.js';

const histories = await recordedHistories();

test('there is a history of every scenario', () => {
  const recorded = new Set(histories.map(({ name }) => name.split('/')[1]));
  const scenarios = [SCENARIOS, EXPORT_SCENARIOS, QUEUE_SCENARIOS, VERSION_SCENARIOS].flatMap((all) =>
    Object.keys(all),
  );
  expect(scenarios.filter((scenario) => !recorded.has(scenario))).toEqual([]);
});

/** How a worker of this version replays each of them, by its run's id; null: well. */
async function replayed(histories: RecordedHistory[]): Promise<Map<string, string | null>> {
  const { path: codePath } = await shared('workflow-bundle');
  const ended = new Map<string, string | null>();
  // One worker for all: a bundle is loaded in a third of a second.
  for await (const { runId, error } of Worker.runReplayHistories({ workflowBundle: { codePath } }, histories)) {
    ended.set(runId, error?.message ?? null);
  }
  return ended;
}

test('each replays: running jobs survive this version', async () => {
  const ended = await replayed(histories);
  const ends = histories.map((recorded) => [recorded.name, ended.get(runIdOf(recorded))]);
  expect(ends).toEqual(histories.map(({ name }) => [name, null]));
});

test('a history that other code has made is refused', async () => {
  const other = structuredClone(histories.find(({ name }) => name.endsWith('/polls'))!);
  const [, ...events] = other.history.events;
  const scheduled = events.find((event) => 'activityTaskScheduledEventAttributes' in event);
  Object.assign(scheduled!.activityTaskScheduledEventAttributes as object, { activityType: { name: 'otherActivity' } });
  expect((await replayed([other])).get(runIdOf(other))).toContain('otherActivity');
});

const HANDED_ON = ['continue-as-new-2', 'export-continue-as-new-2', 'queue-continue-as-new-2'];

test.each(HANDED_ON)(
  '%s: a state that the worker can not decode fails the task, and begins nothing anew',
  async (name) => {
    const recorded = structuredClone(histories.find((one) => one.name.endsWith(`/${name}`))!);
    const [started] = recorded.history.events;
    const metadata = { encoding: Buffer.from('binary/encrypted').toString('base64') };
    Object.assign(started.workflowExecutionStartedEventAttributes, { input: { payloads: [{ metadata, data: '' }] } });
    const error = (await replayed([recorded])).get(runIdOf(recorded));
    expect(error).toContain('can not decode what the run before handed on');
  },
);

function runIdOf({ history }: RecordedHistory): string {
  return history.events[0].workflowExecutionStartedEventAttributes.originalExecutionRunId;
}
