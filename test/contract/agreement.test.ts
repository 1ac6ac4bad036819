import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseAttribution, parseFollowUp, parseJobInput, parseResolution } from '../../src/agent-job/input.js';
import { InvalidInputError } from '../../src/contract/errors.js';
import { parseManifest } from '../../src/snapshots/manifest.js';
import { parseExportInput } from '../../src/visitor-export/input.js';
import { newValidator } from './validator.js';

type Schema = Record<string, unknown>;
const file = new URL('../../docs/contract/agent-jobs.schema.json', import.meta.url);
const schema = JSON.parse(readFileSync(file, 'utf8')) as { $id: string; $defs: Record<string, Schema> };

const standard = newValidator({ isStandard: true }).addSchema(schema);
const whole = newValidator({ isStandard: false }).addSchema(schema);
const fits = (validator: typeof whole, name: string, value: unknown): boolean =>
  validator.validate(`${schema.$id}#/$defs/${name}`, value) as boolean;

const PARSERS: [name: string, parse: (input: unknown) => unknown][] = [
  ['AgentJobInput', parseJobInput],
  ['FollowUpInput', parseFollowUp],
  ['ResolveUnknownInput', parseResolution],
  ['Attribution', parseAttribution],
  ['VisitorExportInput', parseExportInput],
];

function isTaken(parse: (input: unknown) => unknown, input: unknown): boolean {
  try {
    parse(input);
    return true;
  } catch (error) {
    if (error instanceof InvalidInputError) return false;
    throw error;
  }
}

/** Texts at the borders of every rule. */
const TEXTS = [
  ...['', '.', '..', '...', 'a', 'a b', 'é', '€', '😀', '\ud800', 'x\udc00', 'a\u0000', 'a\nb\tc', '\u007f', '\u0085'],
  ...[99, 100, 101, 200, 201, 256, 257, 1_000, 1_001].flatMap((length) => ['a'.repeat(length), 'é'.repeat(length / 2)]),
  ...['0', '1', '-0', '-0.0 s', '-1', '1.5 h', '.5 MINUTES', '1. s', ' 7 days ', '8 days', '10 years', '11 years'],
  ...[
    '1 fortnight',
    '1e3',
    '1  yr',
    '\u00a03 secs\ufeff',
    'soon',
    `${'1'.repeat(12)}`,
    '9'.repeat(99),
    '1'.repeat(101),
  ],
  ...['2026-01-01', '2026-01-03', '2024-02-29', '2026-02-29', '2026-13-01', '0000-01-01', '2026-1-1', '2026-01-01Z'],
  ...['UTC', 'Europe/Paris', 'Mars/Olympus', '+01:00', 'utc'],
  ...['adopt', 'delivered', 'ask'],
];
const NUMBERS = [0, 1, 1.5, 3, 5, 6, 366, 367, -1, 604_800_000, 604_800_001, 315_576_000_000, 315_576_000_001, 1e300];

const text = fc.oneof(fc.constantFrom(...TEXTS), fc.string({ unit: 'binary', maxLength: 12 }));
const anything = fc.oneof(
  text,
  fc.constantFrom<unknown>(...NUMBERS, null, true, false, [], {}, [''], ['a', 'a'], [7]),
  fc.jsonValue({ maxDepth: 1 }),
);

/** Values that fit a schema more often than not. */
function valueOf(part: Schema): fc.Arbitrary<unknown> {
  const { $ref, oneOf, enum: words, type, properties, items, additionalProperties: values } = part as Parts;
  if ($ref) return valueOf(schema.$defs[$ref.split('/').at(-1)!]!);
  if (oneOf) return fc.oneof(...oneOf.map(valueOf));
  if (words) return fc.constantFrom(...words);
  if (properties) return fc.record(fieldsOf(properties), { requiredKeys: [] });
  const types = [type].flat();
  return fc.oneof(
    ...(types.includes('string') ? [text] : []),
    ...(types.includes('number') || types.includes('integer') ? [fc.constantFrom(...NUMBERS)] : []),
    ...(types.includes('boolean') ? [fc.boolean()] : []),
    ...(types.includes('array') ? [fc.array(valueOf(items ?? {}), { maxLength: 3 })] : []),
    ...(values
      ? [fc.dictionary(text, fc.oneof({ weight: 9, arbitrary: valueOf(values) }, anything), { maxKeys: 3 })]
      : []),
    ...(types.includes('null') || !type ? [fc.constant(null)] : []),
  );
}

function fieldsOf(properties: Record<string, Schema>): Record<string, fc.Arbitrary<unknown>> {
  const field = (part: Schema): fc.Arbitrary<unknown> =>
    fc.oneof({ weight: 30, arbitrary: usual(part) }, { weight: 10, arbitrary: valueOf(part) }, anything);
  return Object.fromEntries(Object.entries(properties).map(([name, part]) => [name, field(part)]));
}

/** A value that surely fits, so that one wrong field among many is met too. */
function usual(part: Schema): fc.Arbitrary<unknown> {
  const { type, enum: words, pattern, format, minimum, not } = part as Parts;
  if ([type].flat().includes('null')) return fc.constant(null);
  if (words) return fc.constantFrom(...words);
  if (format === 'date') return fc.constantFrom('2026-01-01', '2026-01-03');
  if (part['x-format']) return fc.constant('Europe/Paris');
  if (type === 'string') return fc.constantFrom('a', 'b', not && pattern ? '..a' : 'c');
  return minimum === undefined ? valueOf(part) : fc.constant(minimum);
}

interface Parts {
  $ref?: string;
  oneOf?: Schema[];
  enum?: unknown[];
  type?: string | string[];
  properties?: Record<string, Schema>;
  items?: Schema;
  additionalProperties?: Schema;
  pattern?: string;
  format?: string;
  minimum?: number;
  not?: unknown;
}

describe.each(PARSERS)('%s', (name, parse) => {
  const input = fc.oneof({ weight: 20, arbitrary: valueOf(schema.$defs[name]!) }, { weight: 1, arbitrary: anything });

  test('the schema takes what the parser takes, and refuses what it refuses', () => {
    const seen = { taken: 0, refused: 0 };
    fc.assert(
      fc.property(input, (value) => {
        const taken = isTaken(parse, value);
        seen[taken ? 'taken' : 'refused'] += 1;
        // A reader that knows the standard alone refuses nothing that is right.
        const isRefusedWrongly = taken && !fits(standard, name, value);
        expect({ taken: fits(whole, name, value), isRefusedWrongly }).toEqual({ taken, isRefusedWrongly: false });
      }),
      { numRuns: 5_000 },
    );
    expect(Math.min(seen.taken, seen.refused)).toBeGreaterThan(250);
  });
});

const MANIFEST = {
  formatVersion: 1,
  ...{ snapshotId: 'a1', projectId: 'p', dateFrom: '2026-01-01', dateTo: '2026-01-02', rows: 1, consistent: true },
  ...{ totals: { human: 1, ai: 0, total: 1 }, provisional: false, exportedAt: '2026-01-02T13:00:00.000Z' },
  ...{ files: [{ name: 'a1.parquet', rows: 1, bytes: 2, sha256: '00' }], drift: { kind: 'order', offset: 1 } },
};

test('a manifest is read where it fits the schema, and only there', () => {
  const names = ['a1', '', '..', '-a', 'a/b', 'a'.repeat(128), 'a'.repeat(129)];
  const times = ['2026-01-02T13:00:00.000Z', '2026-13-02T13:00:00.000Z', 'soon'];
  const counts = [0, 1, -1, 1.5, Number.MAX_SAFE_INTEGER, 2 ** 53, '1'];
  const value = fc.oneof(
    fc.constantFrom<unknown>(...names, ...times, ...counts, '2026-01-03', '2026-02-30', true),
    anything.filter((given) => given !== null),
  );
  const paths = [
    'formatVersion',
    'snapshotId',
    'projectId',
    'dateFrom',
    'dateTo',
    'rows',
    'totals',
    'totals.ai',
    'consistent',
  ].concat(
    ['provisional', 'exportedAt', 'files', 'files.0', 'files.0.name', 'files.0.rows', 'files.0.bytes', 'drift'],
    ['files.0.sha256', 'drift.offset'],
  );
  const seen = { read: 0, refused: 0 };
  fc.assert(
    fc.property(fc.constantFrom(...paths), fc.option(value, { nil: undefined, freq: 10 }), (path, given) => {
      const manifest = structuredClone(MANIFEST) as Record<string, unknown>;
      const steps = path.split('.');
      const parent = steps.slice(0, -1).reduce((at, step) => at[step] as Record<string, unknown>, manifest);
      parent[steps.at(-1)!] = given;
      const text = JSON.stringify(manifest);
      const isRead = parseManifest(Buffer.from(text)) !== null;
      seen[isRead ? 'read' : 'refused'] += 1;
      expect(fits(whole, 'SnapshotManifest', JSON.parse(text)), text).toBe(isRead);
    }),
    { numRuns: 3_000 },
  );
  expect(Math.min(seen.read, seen.refused)).toBeGreaterThan(200);
});

const RIGHT: [name: string, input: Schema][] = [
  ['AgentJobInput', { projectId: 'p', prompt: 'x' }],
  ['AgentJobInput', { projectId: 'p', jobId: 'j' }],
  ['FollowUpInput', { prompt: 'x' }],
  ['ResolveUnknownInput', { action: 'adopt', jobId: 'j' }],
  ['ResolveUnknownInput', { action: 'retry' }],
  ['Attribution', {}],
  ['VisitorExportInput', { projectId: 'p', dateFrom: '2026-01-01', dateTo: '2026-01-03' }],
  ['VisitorExportInput', { projectId: 'p', timeZone: 'UTC' }],
];
const OTHERS: unknown[] = [
  ...[null, true, false, 'true', [], {}, [''], ['a', 'a'], [7], { toString: 1 }],
  ...[{ a: 'b' }, { a: null }, JSON.parse('{"__proto__": "x"}'), { '': '' }, Array(10).fill('é'), Array(11).fill('a')],
  ...[
    ['a'.repeat(64)],
    ['a'.repeat(65)],
    ['a♡'],
    ['é'.repeat(33)],
    ['a\n'],
    { a: 'x'.repeat(4_088) },
    { a: 'x'.repeat(4_089) },
  ],
];

function fieldNames(part: Schema): string[] {
  const { $ref, oneOf, properties = {} } = part as Parts;
  const forms = [...(oneOf ?? []), ...($ref ? [schema.$defs[$ref.split('/').at(-1)!]!] : [])];
  return [...new Set([...Object.keys(properties), ...forms.flatMap(fieldNames)])];
}

test.each(RIGHT)('%s %j: each field takes the same values by schema and parser', (name, input) => {
  const [, parse] = PARSERS.find(([known]) => known === name)!;
  const wrong = fieldNames(schema.$defs[name]!).flatMap((field) =>
    [...TEXTS, ...NUMBERS, ...OTHERS].filter((value) => {
      const changed = { ...input, [field]: value };
      return fits(whole, name, changed) !== isTaken(parse, changed);
    }),
  );
  expect(wrong).toEqual([]);
});

test('rules between fields hold at their borders', () => {
  const job = (polling: object) => ({ projectId: 'p', prompt: 'x', polling });
  const range = (dateFrom: string, dateTo: string) => ({ projectId: 'p', dateFrom, dateTo });
  const cases: [name: string, input: unknown, isRight: boolean][] = [
    ['AgentJobInput', job({ min: '2 s', max: 2_000 }), true],
    ['AgentJobInput', job({ min: 2_001, max: '2 s' }), false],
    ['VisitorExportInput', range('2026-01-01', '2026-01-02'), true],
    ['VisitorExportInput', range('2026-01-01', '2026-01-01'), false],
  ];
  const told = cases.map(([name, input]) => {
    const [, parse] = PARSERS.find(([known]) => known === name)!;
    return [isTaken(parse, input), fits(whole, name, input)];
  });
  expect(told).toEqual(cases.map(([, , isRight]) => [isRight, isRight]));
});

test('the schema takes prompts up to the last byte that the parser takes', () => {
  const sizes: [string, number][] = [
    ['a', 524_288],
    ['é', 262_144],
    ['\u0001', 174_762],
  ];
  for (const [character, length] of sizes) {
    for (const [more, isRight] of [[0, true] as const, [1, false] as const]) {
      const input = { projectId: 'p', prompt: character.repeat(length + more) };
      expect([isTaken(parseJobInput, input), fits(whole, 'AgentJobInput', input)]).toEqual([isRight, isRight]);
    }
  }
});
