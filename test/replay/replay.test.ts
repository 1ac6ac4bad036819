import { fileURLToPath } from 'node:url';
import { Worker } from '@temporalio/worker';
import { expect, test } from 'vitest';
import { shared } from '../support/shared.js';
import { EXPORT_SCENARIOS } from './export-scenarios.js';
import { recordedHistories } from './histories.js';
import { QUEUE_SCENARIOS } from './queue-scenarios.js';
import { RECURRING_SCENARIOS } from './recurring-scenarios.js';
import { SCENARIOS } from './scenarios.js';
import { VERSION_SCENARIOS } from './version-scenarios.js';

const histories = await recordedHistories();

test('there is a history of every scenario', () => {
  const recorded = new Set(histories.map(({ name }) => name.split('/')[1]));
  const scenarios = [SCENARIOS, EXPORT_SCENARIOS, RECURRING_SCENARIOS, QUEUE_SCENARIOS, VERSION_SCENARIOS].flatMap(
    (all) => Object.keys(all),
  );
  expect(scenarios.filter((scenario) => !recorded.has(scenario))).toEqual([]);
});

test.for(histories.map(({ name, workflowId, history }) => [name, workflowId, history] as const))(
  '%s replays: running jobs survive this version',
  async ([, workflowId, history], { expect }) => {
    const { path: codePath } = await shared('workflow-bundle');
    const replaying = Worker.runReplayHistory({ workflowBundle: { codePath } }, history, workflowId);
    await expect(replaying).resolves.toBeUndefined();
  },
);

test('a decision that a release without authors accepted replays, whatever stands in their place', async () => {
  const confirmed = histories.find(({ name }) => name === '0.2.0/unknown-create-confirmed')!;
  const history = structuredClone(confirmed.history) as { events: AcceptedUpdate[] };
  const accepted = history.events.find((event) => event.workflowExecutionUpdateAcceptedEventAttributes)!;
  const [payload] = accepted.workflowExecutionUpdateAcceptedEventAttributes!.acceptedRequest.input.args.payloads;
  const input = JSON.parse(Buffer.from(payload!.data, 'base64').toString()) as object;
  const strange = { ...input, by: { name: 'ann' }, note: '' };
  payload!.data = Buffer.from(JSON.stringify(strange)).toString('base64');
  const { path: codePath } = await shared('workflow-bundle');
  const replaying = Worker.runReplayHistory({ workflowBundle: { codePath } }, history, confirmed.workflowId);
  await expect(replaying).resolves.toBeUndefined();
});

test('a queue of a worker that took "unlimited" for "none set" replays: it gave nobody a turn for it', async () => {
  const waited = histories.find(({ name }) => name === '0.3.0/queue-continue-as-new')!;
  const history = structuredClone(waited.history) as { events: Signaled[] };
  const payloads = history.events.flatMap(
    ({ workflowExecutionSignaledEventAttributes: signaled }) =>
      (signaled?.signalName === 'joinQueue' && signaled.input.payloads) || [],
  );
  const asked = payloads.map(({ data }) => JSON.parse(Buffer.from(data, 'base64').toString()) as object);
  expect(asked.filter((join) => 'perHour' in join && join.perHour === null)).not.toEqual([]);
  for (const [index, payload] of payloads.entries()) {
    const told = { ...asked[index], perHour: null, isUnlimited: true };
    payload.data = Buffer.from(JSON.stringify(told)).toString('base64');
  }
  const { path: codePath } = await shared('workflow-bundle');
  const replaying = Worker.runReplayHistory({ workflowBundle: { codePath } }, history, waited.workflowId);
  await expect(replaying).resolves.toBeUndefined();
});

interface Signaled {
  workflowExecutionSignaledEventAttributes?: { signalName: string; input: { payloads: { data: string }[] } };
}

interface AcceptedUpdate {
  workflowExecutionUpdateAcceptedEventAttributes?: {
    acceptedRequest: { input: { args: { payloads: { data: string }[] } } };
  };
}

test('a history that other code has made is refused', async () => {
  const workflowsPath = fileURLToPath(new URL('../support/echo-workflow.ts', import.meta.url));
  const [first] = histories;
  await expect(Worker.runReplayHistory({ workflowsPath }, first?.history, 'other-code')).rejects.toThrow();
});
