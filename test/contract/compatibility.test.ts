import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { readContract, type Contract } from '../../scripts/contract/artefacts.js';
import { changesSince } from '../../scripts/contract/compatibility.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const present = readContract(ROOT, '99.0.0');
const committed = (name: string): unknown => JSON.parse(readFileSync(`${ROOT}scripts/contract/${name}`, 'utf8'));

test('every rule of the last release that is gone or new is declared, with a reason, and nothing else is', () => {
  const declared = committed('declared-changes.json') as Record<string, string>;
  const changes = changesSince(committed('released.json') as Contract, present);
  expect(changes, 'add them to scripts/contract/declared-changes.json').toEqual(Object.keys(declared));
  expect(Object.values(declared).every((reason) => reason.length > 10)).toBe(true);
});

// oxlint-disable-next-line typescript/no-explicit-any -- the seeds reach into any part
type Any = any;

const DEFS = 'schema.$defs';

test.each<[told: string, change: (contract: Any, defs: Any) => void]>([
  [`gone: ${DEFS}.CreateJobInput.properties.batch.`, (_, defs) => delete defs.CreateJobInput.properties.batch],
  [`new: ${DEFS}.CreateJobInput.required "batch"`, (_, defs) => defs.CreateJobInput.required.push('batch')],
  [
    `new: ${DEFS}.FollowUpInput.required "author"`,
    (_, { FollowUpInput }) => {
      FollowUpInput.properties.author = { type: 'string' };
      FollowUpInput.required.push('author');
    },
  ],
  [
    `gone: ${DEFS}.CreateJobInput.properties.batch.type`,
    (_, defs) => (defs.CreateJobInput.properties.batch.type = 'string'),
  ],
  [
    `new: ${DEFS}.CreateJobInput.properties.prompt.pattern "^a"`,
    (_, defs) => (defs.CreateJobInput.properties.prompt.pattern = '^a'),
  ],
  [
    `gone: ${DEFS}.CreateJobInput.properties.priority.maximum 5`,
    (_, defs) => (defs.CreateJobInput.properties.priority.maximum = 3),
  ],
  [
    `new: ${DEFS}.JobState.properties.phase.enum "paused"`,
    (_, defs) => defs.JobState.properties.phase.enum.push('paused'),
  ],
  [
    `gone: ${DEFS}.JobState.required "phase"`,
    (_, { JobState }) => (JobState.required = JobState.required.filter((field: string) => field !== 'phase')),
  ],
  [
    `new: ${DEFS}.JobState.required "author"`,
    (_, { JobState }) => {
      JobState.properties.author = { type: 'string' };
      JobState.required.push('author');
    },
  ],
  [
    `gone: ${DEFS}.ResolveUnknownInput.oneOf[1].properties.note`,
    (_, { ResolveUnknownInput }) => delete ResolveUnknownInput.oneOf[1].properties.note,
  ],
  ['gone: words.events "agent_job.ended"', ({ words }) => words.events.shift()],
  ['gone: words.exits.lost 5', ({ words }) => (words.exits.lost = 14)],
  ['gone: messages[', ({ messages }) => messages.pop()],
  ['new: workflows[agentJob].failures.Tired []', ({ workflows }) => (workflows[0].failures.Tired = [])],
  [
    'new: calls.operations.POST /v1/projects/{projectId}/jobs.answers "418"',
    ({ calls }) => (calls.operations['POST /v1/projects/{projectId}/jobs'].answers['418'] = { type: 'object' }),
  ],
  ['gone: calls.tools.', ({ calls }) => delete calls.tools[Object.keys(calls.tools)[0]!]],
])('a caller is told "%s"', (told, change) => {
  const changed = structuredClone(present) as Any;
  change(changed, changed.schema.$defs);
  const changes = changesSince(present, changed as Contract);
  expect(changes.filter((text) => text.startsWith(told))).not.toEqual([]);
});

test('optional fields of inputs and answers, shapes, messages and operations may come without a word', () => {
  const changed = structuredClone(present) as Any;
  changed.schema.$defs.CreateJobInput.properties.author = { type: 'string', maxLength: 5 };
  changed.schema.$defs.JobState.properties.author = { type: 'string' };
  changed.schema.$defs.Another = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] };
  changed.messages.push({ workflow: 'agentJob', kind: 'signal', name: 'rest', argument: { type: 'string' } });
  changed.calls.operations['GET /v1/rest'] = { id: 'rest', answers: { 200: { type: 'string' } } };
  changed.schema.description = 'Other words.';
  expect(changesSince(present, changed as Contract)).toEqual([]);
});
