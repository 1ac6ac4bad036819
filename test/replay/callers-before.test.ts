/**
 * Open runs that a release began which did not know the newer options: their callers may have sent any fields of those
 * names. Every recorded history of that release is given such fields and replays.
 */
import { Worker } from '@temporalio/worker';
import { expect, test } from 'vitest';
import { shared } from '../support/shared.js';
import { recordedHistories, type RecordedHistory } from './histories.js';

const STRANGE = { priority: 'high', batch: { id: 7 }, tags: 'nightly', metadata: { trace: 7 }, startWithin: 'soon' };
const MEANT = { priority: 1, batch: 'b', tags: ['nightly'], metadata: { trace: '7' } };

const runs = (await recordedHistories()).filter(
  ({ name, history }) => name.startsWith('0.2.0/') && startedOf(history).workflowType.name === 'agentJob',
);

test.for(runs.map((run) => [run.name, run] as const))(
  '%s replays, whatever its caller sent in fields that came later',
  async ([, run], { expect }) => {
    for (const fields of [STRANGE, MEANT]) await expect(replay(withFields(run, fields))).resolves.toBeUndefined();
  },
);

test('the histories hold inputs, signals and updates to put the fields into', () => {
  expect(runs.length).toBeGreaterThan(20);
  const withFollowUps = runs.filter(({ name }) => /follow-up-(signal|update)$/.test(name));
  const payloads = withFollowUps.map(({ history }) => (history as { events: Event[] }).events.flatMap(payloadsOf));
  expect(payloads.map(({ length }) => length > 1)).toEqual([true, true]);
});

async function replay({ history, workflowId }: RecordedHistory): Promise<void> {
  const { path: codePath } = await shared('workflow-bundle');
  await Worker.runReplayHistory({ workflowBundle: { codePath } }, history, workflowId);
}

interface Payload {
  data: string;
}

interface Event {
  workflowExecutionStartedEventAttributes?: { workflowType: { name: string }; input: { payloads: Payload[] } };
  workflowExecutionSignaledEventAttributes?: { signalName: string; input: { payloads: Payload[] } };
  workflowExecutionUpdateAcceptedEventAttributes?: {
    acceptedRequest: { input: { name: string; args: { payloads: Payload[] } } };
  };
}

function startedOf(history: object) {
  return (history as { events: Event[] }).events[0]!.workflowExecutionStartedEventAttributes!;
}

function withFields(run: RecordedHistory, fields: object): RecordedHistory {
  const history = structuredClone(run.history) as RecordedHistory['history'] & { events: Event[] };
  for (const payload of history.events.flatMap(payloadsOf)) addTo(payload, fields);
  return { ...run, history };
}

/** Of the caller's input, and of its follow-ups. */
function payloadsOf(event: Event): Payload[] {
  const { workflowExecutionSignaledEventAttributes: signal } = event;
  const update = event.workflowExecutionUpdateAcceptedEventAttributes?.acceptedRequest.input;
  return [
    ...(event.workflowExecutionStartedEventAttributes?.input.payloads ?? []),
    ...(signal?.signalName === 'followUp' ? signal.input.payloads : []),
    ...(update?.name === 'sendFollowUp' ? update.args.payloads : []),
  ];
}

function addTo(payload: Payload, fields: object): void {
  const given = JSON.parse(Buffer.from(payload.data, 'base64').toString()) as object;
  payload.data = Buffer.from(JSON.stringify({ ...given, ...fields })).toString('base64');
}
