import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { readContract, type Contract } from '../../scripts/contract/artefacts.js';
import { changesSince } from '../../scripts/contract/compatibility.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const present = readContract(ROOT, '99.0.0');
const committed = (name: string): unknown => JSON.parse(readFileSync(`${ROOT}scripts/contract/${name}`, 'utf8'));

test('nothing that a caller of the last release relies on is broken', () => {
  const changes = changesSince(committed('released.json') as Contract, present);
  expect(changes.filter(({ kind }) => kind === 'break').map(({ text }) => text)).toEqual([]);
});

test('what callers of the last release must be told of is declared, with a reason, and nothing else is', () => {
  const changes = changesSince(committed('released.json') as Contract, present);
  const declared = committed('declared-changes.json') as Record<string, string>;
  const notices = changes.filter(({ kind }) => kind === 'notice').map(({ text }) => text);
  expect(notices, 'add them to scripts/contract/declared-changes.json').toEqual(Object.keys(declared));
  expect(Object.values(declared).every((reason) => reason.length > 10)).toBe(true);
});

interface Schema {
  type?: string | string[];
  enum?: unknown[];
  properties: Record<string, Schema>;
  required: string[];
  items?: Schema;
  oneOf?: Schema[];
  anyOf?: Schema[];
  [keyword: string]: unknown;
}

/** Told as "kind: text", after a change of the contract. */
function changesAfter(change: (shapes: Record<string, Schema>, contract: Contract) => void): string[] {
  const changed = structuredClone(present);
  change(changed.schema.$defs as unknown as Record<string, Schema>, changed);
  return changesSince(present, changed).map(({ kind, text }) => `${kind}: ${text}`);
}

type Seed = [told: string, change: (shapes: Record<string, Schema>, contract: Contract) => void];
type Mutable<T> = { -readonly [K in keyof T]: T[K] };

describe('of an input', () => {
  const field = (shapes: Record<string, Schema>, name: string): Schema => shapes['CreateJobInput']!.properties[name]!;

  test.each<Seed>([
    ['break: CreateJobInput.batch is gone', (s) => delete s['CreateJobInput']!.properties['batch']],
    ['break: CreateJobInput.batch is required now', (s) => s['CreateJobInput']!.required.push('batch')],
    [
      'break: CreateJobInput.deadline may be no string any more',
      (s) => (field(s, 'deadline').type = ['number', 'null']),
    ],
    [
      'break: CreateJobInput.onUnknownOutcome may be "retry" no more',
      (s) => (field(s, 'onUnknownOutcome').enum = ['ask', 'fail', null]),
    ],
    ['break: CreateJobInput.projectId takes certain words alone now', (s) => (field(s, 'projectId').enum = ['acme'])],
    ['break: CreateJobInput.priority has maximum 3 now, not 5', (s) => (field(s, 'priority')['maximum'] = 3)],
    ['break: CreateJobInput.prompt has the rule pattern now', (s) => (field(s, 'prompt')['pattern'] = '^a')],
    ['notice: CreateJobInput.settle is "1 minute" by default now', (s) => (field(s, 'settle')['default'] = '1 minute')],
    [
      'break: ResolveUnknownInput.action may be "abandon" no more',
      (s) => s['ResolveUnknownInput']!.oneOf![1]!.properties['action']!.enum!.pop(),
    ],
  ])('%s', (told, seed) => {
    expect(changesAfter(seed)).toContain(told);
  });

  test('a new field, a new word and a wider bound concern nobody', () => {
    const told = changesAfter((shapes) => {
      shapes['CreateJobInput']!.properties['tags'] = { type: ['array', 'null'] } as Schema;
      field(shapes, 'onUnknownOutcome').enum!.push('guess');
      field(shapes, 'priority')['maximum'] = 9;
      delete field(shapes, 'batch')['pattern'];
      field(shapes, 'batch').type = ['string', 'integer', 'null'];
    });
    expect(told).toEqual([]);
  });
});

describe('of an output', () => {
  const field = (shapes: Record<string, Schema>, name: string): Schema => shapes['JobState']!.properties[name]!;

  test.each<Seed>([
    ['break: JobState.polls is gone', (s) => delete s['JobState']!.properties['polls']],
    ['break: JobState.phase may be missing now', (s) => s['JobState']!.required.splice(0, 1)],
    ['notice: JobState.polls may be number now', (s) => (field(s, 'polls').type = 'number')],
    ['notice: JobState.phase may be "paused" now', (s) => field(s, 'phase').enum!.push('paused')],
    [
      'break: AgentJobResult.finishedAt is gone',
      (s) => s['AgentJobResult']!.anyOf!.push({ $ref: '#/$defs/JobState' } as unknown as Schema),
    ],
    [
      'notice: EndedJobResult.outcome may be "merged" now',
      (s) => s['EndedJobResult']!.properties['outcome']!.enum!.push('merged'),
    ],
  ])('%s', (told, seed) => {
    expect(changesAfter(seed)).toContain(told);
  });

  test('a new field, and a word less, concern nobody', () => {
    const told = changesAfter((shapes) => {
      shapes['JobState']!.properties['colours'] = { type: 'array' } as Schema;
      shapes['JobState']!.required.push('colours');
      field(shapes, 'phase').enum!.pop();
      field(shapes, 'jobId').type = 'string';
    });
    expect(told).toEqual([]);
  });
});

describe('of workflows and messages', () => {
  const change = (name: string, fields: object) => (_: unknown, contract: Contract) =>
    void Object.assign(
      contract.messages.find((message) => message.name === name)!,
      fields,
    );

  test.each<Seed>([
    [
      'break: the workflow agentJob is gone',
      (_, c) => void ((c as Mutable<Contract>).workflows = c.workflows.slice(1)),
    ],
    [
      'break: the signal followUp of agentJob is gone',
      (_, c) => void ((c as Mutable<Contract>).messages = c.messages.slice(1)),
    ],
    ['break: the signal followUp of agentJob is gone', change('followUp', { kind: 'update' })],
    ['break: agentJob.jobState needs an argument now', change('jobState', { argument: { type: 'string' } })],
    ['break: agentJob.pollNow needs its argument now', change('pollNow', { isArgumentOptional: false })],
    ['break: agentJob.jobState answers nothing now', change('jobState', { answer: null })],
    [
      'notice: agentJob may fail as Paused now',
      (_, c) => void Object.assign(c.workflows[0]!.failures, { Paused: ['InvalidInputDetails'] }),
    ],
    [
      'break: the input of agentJob is another shape',
      (_, c) => void Object.assign(c.workflows[0]!, { input: 'JobState' }),
    ],
  ])('%s', (told, seed) => {
    expect(changesAfter(seed)).toContain(told);
  });

  test('a new message and a new workflow concern nobody', () => {
    const told = changesAfter((_, contract) => {
      const changed = contract as Mutable<Contract>;
      changed.messages = [...contract.messages, { ...contract.messages[0]!, name: 'pause' }];
      changed.workflows = [...contract.workflows, { ...contract.workflows[0]!, type: 'another' }];
    });
    expect(told).toEqual([]);
  });
});

test('a call over HTTP and a tool of an agent are compared, too', () => {
  const path = 'POST /v1/projects/{projectId}/jobs';
  interface Changeable {
    operations: Record<string, { id: string; parameters: Schema; answers: Record<string, null> }>;
    tools: Record<string, Schema>;
  }
  const changesOf = (change: (calls: Changeable, start: Changeable['operations'][string]) => unknown) =>
    changesAfter((_, { calls }) => {
      const changeable = calls as unknown as Changeable;
      change(changeable, changeable.operations[path]!);
    });
  expect(changesOf(({ operations }) => delete operations[path])).toEqual([`break: ${path} is gone`]);
  expect(changesOf((_, start) => (start.id = 'begin'))).toEqual([`break: ${path} is named begin now`]);
  expect(changesOf((_, start) => start.parameters.required.push('Prefer'))).toEqual([
    `break: the parameters of ${path}.Prefer is required now`,
  ]);
  expect(changesOf(({ tools }) => delete tools['start_job']!.properties['tags'])).toEqual([
    'break: the tool start_job.tags is gone',
  ]);
  expect(changesOf((_, start) => (start.answers['202'] = null))).toEqual([`notice: ${path} may answer 202 now`]);
});
