import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import * as contract from '../../src/contract.js';
import { formatJson, readContract } from '../../scripts/contract/artefacts.js';
import { openApiDocument } from '../../scripts/contract/openapi.js';
import { INPUTS, INTERNAL_MESSAGES, WORKFLOWS } from '../../scripts/contract/shapes.js';
import { newValidator } from './validator.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const { version } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as { version: string };
const read = readContract(ROOT, version);
const published = readFileSync(`${ROOT}docs/contract/agent-jobs.schema.json`, 'utf8');

test('the published schemas and OpenAPI document are those of the source: npm run docs:contract', async () => {
  expect(published).toBe(await formatJson(read.schema));
  const document = readFileSync(`${ROOT}docs/contract/openapi.json`, 'utf8');
  expect(document).toBe(await formatJson(openApiDocument()));
});

test('the Python example knows the fields of a job', () => {
  const example = readFileSync(`${ROOT}examples/python/agent_jobs.py`, 'utf8');
  const [first, second] = [...example.matchAll(/^FIELDS \|?= set\("(.+)"\.split/gm)].map(([, names]) => names!);
  const { CreateJobInput, AttachJobInput } = read.schema.$defs as Record<
    string,
    { properties: Record<string, object> }
  >;
  const { polling } = CreateJobInput!.properties as { polling: { properties: object } };
  const bounds = Object.keys(polling.properties).map((name) => `polling.${name}`);
  const names = [CreateJobInput!, AttachJobInput!].flatMap(({ properties }) => Object.keys(properties));
  expect(`${first} ${second}`.split(' ').toSorted()).toEqual([...new Set([...names, ...bounds])].toSorted());
});

test('every message of the contract is published, or is one between its workflows', () => {
  const isMessage = (value: unknown): boolean =>
    ['signal', 'update', 'query'].includes((value as { type?: string } | undefined)?.type ?? '');
  const messages = Object.entries(contract).flatMap(([name, value]) => (isMessage(value) ? [name] : []));
  const listed = WORKFLOWS.flatMap((workflow) => workflow.messages);
  expect([...listed, ...INTERNAL_MESSAGES].toSorted()).toEqual(messages.toSorted());
});

/** Every reference in a document, wherever it is. */
function references(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => (key === '$ref' ? [inner as string] : references(inner)));
}

test('every reference leads to a shape, and every shape is valid JSON Schema 2020-12', () => {
  const schema = JSON.parse(published) as { $defs: object };
  const known = Object.keys(schema.$defs);
  const used = references(schema).map((reference) => reference.slice('#/$defs/'.length));
  expect(used.filter((name) => !known.includes(name))).toEqual([]);
  expect(newValidator({ isStandard: true }).validateSchema(schema)).toBe(true);
});

test('every field of an input has the description of its type, where that has one', () => {
  const { CreateJobInput } = read.schema.$defs as Record<string, { properties: Record<string, object> }>;
  expect(CreateJobInput!.properties['batch']).toMatchObject({
    description: 'A label to find jobs by that were started together; at most 100 bytes.',
  });
  expect(CreateJobInput!.properties['polling']).toMatchObject({
    properties: { ratio: { description: expect.stringContaining('0 or more; default 0.1.') } },
  });
});

test('every input that a workflow or a message takes is made of the table of its parser', () => {
  const starts = WORKFLOWS.flatMap(({ input }) => (input === null ? [] : [input]));
  const taken = read.messages.flatMap(({ argument }) => references(argument));
  const names = [...starts, ...taken.map((reference) => reference.slice('#/$defs/'.length))];
  expect(names.filter((name) => !(name in INPUTS))).toEqual([]);
});
