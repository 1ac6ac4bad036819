import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { readContract, type Contract } from '../../scripts/contract/artefacts.js';
import { recordedHistories } from '../replay/histories.js';
import { closed } from './closed.js';
import { newValidator } from './validator.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const released = JSON.parse(readFileSync(`${ROOT}scripts/contract/released.json`, 'utf8')) as Contract;
const { version } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as { version: string };
const present = readContract(ROOT, version);

/** A value that went over the wire, and the shape that the contract gives it. */
interface Told {
  at: string;
  shape: object;
  value: unknown;
}

interface Payload {
  data?: string;
  metadata: { encoding: string };
}
interface Payloads {
  payloads?: Payload[];
}
interface Failure {
  applicationFailureInfo?: { type?: string; details?: Payloads };
}
interface Event {
  eventId: string;
  eventType: string;
  workflowExecutionStartedEventAttributes?: {
    workflowType: { name: string };
    input?: Payloads;
    continuedExecutionRunId?: string;
    memo?: { fields?: Record<string, Payload> };
  };
  workflowExecutionCompletedEventAttributes?: { result?: Payloads };
  workflowExecutionFailedEventAttributes?: { failure: Failure };
  workflowExecutionSignaledEventAttributes?: { signalName: string; input?: Payloads };
  workflowExecutionUpdateAcceptedEventAttributes?: {
    acceptedRequest: { input: { name: string; args?: Payloads } };
  };
  workflowExecutionUpdateCompletedEventAttributes?: { acceptedEventId: string; outcome: { success?: Payloads } };
  workflowPropertiesModifiedEventAttributes?: { upsertedMemo: { fields: Record<string, Payload> } };
  upsertWorkflowSearchAttributesEventAttributes?: { searchAttributes: { indexedFields: Record<string, Payload> } };
}

function decoded({ payloads = [] }: Payloads = {}): unknown[] {
  return payloads.map(({ data }) => JSON.parse(Buffer.from(data ?? '', 'base64').toString() || 'null') as unknown);
}

function fields(record: Record<string, Payload> = {}): Record<string, unknown> {
  const known = Object.entries(record).map(([name, payload]) => [name, decoded({ payloads: [payload] })[0]] as const);
  return Object.fromEntries(known.filter(([, value]) => value !== null));
}

const ref = (name: string): object => ({ $ref: `#/$defs/${name}` });

/** All that a run was told and told, as far as the contract knows the workflow. */
function exchanged(contract: Contract, name: string, events: readonly Event[]): Told[] {
  const type = events[0]!.workflowExecutionStartedEventAttributes!.workflowType.name;
  const workflow = contract.workflows.find((shape) => shape.type === type);
  if (!workflow) return [];
  const message = (wireName: string) =>
    contract.messages.find((shape) => shape.workflow === type && shape.name === wireName);
  const nameOfUpdate = (eventId: string): string => {
    const accepted = events.find((event) => event.eventId === eventId)?.workflowExecutionUpdateAcceptedEventAttributes;
    return accepted?.acceptedRequest.input.name ?? '';
  };
  return events.flatMap((event): Told[] => {
    const told = (shape: object | null | undefined, values: readonly unknown[]): Told[] =>
      shape ? values.map((value) => ({ at: `${name}: ${event.eventType}`, shape, value })) : [];
    const end = event.workflowExecutionCompletedEventAttributes;
    const failure = event.workflowExecutionFailedEventAttributes?.failure.applicationFailureInfo;
    const signal = event.workflowExecutionSignaledEventAttributes;
    const asked = event.workflowExecutionUpdateAcceptedEventAttributes?.acceptedRequest.input;
    const answer = event.workflowExecutionUpdateCompletedEventAttributes;
    const memo = event.workflowPropertiesModifiedEventAttributes?.upsertedMemo.fields;
    const upserted = event.upsertWorkflowSearchAttributesEventAttributes?.searchAttributes.indexedFields;
    const attributes = upserted && ownAttributes(upserted);
    const details = (workflow.failures[failure?.type ?? ''] ?? []).map(ref);
    return [
      ...told(workflow.result ? ref(workflow.result) : null, end ? decoded(end.result) : []),
      ...told(details.length > 0 ? { anyOf: details } : null, decoded(failure?.details)),
      ...told(message(signal?.signalName ?? '')?.argument, decoded(signal?.input)),
      ...told(message(asked?.name ?? '')?.argument, decoded(asked?.args)),
      ...told(answer && message(nameOfUpdate(answer.acceptedEventId))?.answer, decoded(answer?.outcome.success)),
      ...told(type === 'agentJob' ? ref('AgentJobMemo') : null, memo ? [fields(memo)] : []),
      ...told(type === 'agentJob' ? ref('AgentJobSearchAttributes') : null, attributes ? [fields(attributes)] : []),
    ];
  });
}

/** Without those that Temporal's SDK sets for itself. */
function ownAttributes(attributes: Record<string, Payload>): Record<string, Payload> {
  return Object.fromEntries(Object.entries(attributes).filter(([name]) => !name.startsWith('Temporal')));
}

/** What does not fit its shape, or holds a field that the shape does not have. */
function misfits(validator: Ajv2020, told: readonly Told[], $defs: object): string[] {
  return told
    .filter(({ shape, value }) => !validator.validate({ ...shape, $defs }, value))
    .map(({ at, shape, value }) => `${at}: ${JSON.stringify(shape)} is not ${JSON.stringify(value)}`);
}

const histories = await recordedHistories();

const numbers = (text: string): number[] => text.split('.').map(Number);
const isLater = (one: string, other: string): boolean => {
  const first = numbers(one).findIndex((number, place) => number !== numbers(other)[place]);
  return first >= 0 && numbers(one)[first]! > numbers(other)[first]!;
};
/** The histories of a release fit what it promised, and those of the present code what it promises. */
function contractOf(name: string): Contract {
  return isLater(name.split('/')[0]!, released.version) ? present : released;
}

test('what the recorded runs told fits the schemas, with no field besides', () => {
  const recorded = histories.filter(({ name }) => !isLater(released.version, name.split('/')[0]!));
  for (const contract of new Set(recorded.map(({ name }) => contractOf(name)))) {
    const told = recorded
      .filter(({ name }) => contractOf(name) === contract)
      .flatMap(({ name, history }) => exchanged(contract, name, history.events as unknown as Event[]));
    expect(told).not.toEqual([]);
    const $defs = closed(contract.schema.$defs);
    expect(misfits(newValidator({ isStandard: true }), told, $defs)).toEqual([]);
    // Every kind of exchange is met: an unlisted field would be noticed.
    const { JobState: _state, EndedJobResult: _result, ...others } = $defs;
    const empty = { type: 'object', properties: {}, additionalProperties: false };
    const without = { ...others, JobState: empty, EndedJobResult: empty };
    expect(misfits(newValidator({ isStandard: true }), told, without).length).toBeGreaterThan(5);
  }
});
