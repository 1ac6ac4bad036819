import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parseAttribution, parseFollowUp, parseJobInput, parseResolution } from '../../src/agent-job/input.js';
import { InvalidInputError } from '../../src/contract/errors.js';
import { parseManifest } from '../../src/exports/snapshots/manifest.js';
import { parseExportInput } from '../../src/exports/input.js';
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

const MANIFEST = {
  formatVersion: 1,
  ...{ snapshotId: 'a1', projectId: 'p', dateFrom: '2026-01-01', dateTo: '2026-01-02', rows: 1, consistent: true },
  ...{ totals: { human: 1, ai: 0, total: 1 }, provisional: false, exportedAt: '2026-01-02T13:00:00.000Z' },
  ...{ files: [{ name: 'a1.parquet', rows: 1, bytes: 2, sha256: '00' }], drift: { kind: 'order', offset: 1 } },
};

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

test('a manifest is read if it fits the schema, and only then', () => {
  const names = ['a1', '-a', 'a/b', 'a'.repeat(128), 'a'.repeat(129)];
  const times = ['2026-01-02T13:00:00.000Z', '2026-13-02T13:00:00.000Z'];
  const counts = [-1, Number.MAX_SAFE_INTEGER, 2 ** 53];
  const values = [...names, ...times, ...counts, '2026-02-30', undefined, ...TEXTS, ...NUMBERS, ...OTHERS.slice(1)];
  const paths = [
    ...['formatVersion', 'snapshotId', 'projectId', 'dateFrom', 'dateTo', 'rows', 'totals', 'totals.ai', 'consistent'],
    ...['provisional', 'exportedAt', 'files', 'files.0', 'files.0.name', 'files.0.rows', 'files.0.bytes', 'drift'],
    ...['files.0.sha256', 'drift.offset'],
  ];
  const wrong = paths.flatMap((path) =>
    values
      .filter((given) => {
        const manifest = structuredClone(MANIFEST) as Record<string, unknown>;
        const steps = path.split('.');
        const parent = steps.slice(0, -1).reduce((at, step) => at[step] as Record<string, unknown>, manifest);
        parent[steps.at(-1)!] = given;
        const json = JSON.stringify(manifest);
        return (parseManifest(Buffer.from(json)) !== null) !== fits(whole, 'SnapshotManifest', JSON.parse(json));
      })
      .map((given) => [path, given]),
  );
  expect(wrong).toEqual([]);
});

interface Parts {
  $ref?: string;
  oneOf?: Schema[];
  properties?: Record<string, Schema>;
}

/** The paths of all fields, such as `polling.min`. */
function fieldPaths(part: Schema): string[] {
  const { $ref, oneOf, properties = {} } = part as Parts;
  const forms = [...(oneOf ?? []), ...($ref ? [schema.$defs[$ref.split('/').at(-1)!]!] : [])];
  const own = Object.entries(properties).flatMap(([name, field]) => {
    return [name, ...fieldPaths(field).map((path) => `${name}.${path}`)];
  });
  return [...new Set([...own, ...forms.flatMap(fieldPaths)])];
}

test.each(RIGHT)('%s %j: each field takes the same values by schema and parser', (name, input) => {
  const [, parse] = PARSERS.find(([known]) => known === name)!;
  const seen = { taken: 0, refused: 0 };
  const wrong = fieldPaths(schema.$defs[name]!).flatMap((path) =>
    [...TEXTS, ...NUMBERS, ...OTHERS].filter((value) => {
      const [field = '', inner] = path.split('.');
      const changed = { ...input, [field]: inner === undefined ? value : { [inner]: value } };
      const taken = isTaken(parse, changed);
      seen[taken ? 'taken' : 'refused'] += 1;
      // A reader that knows the standard alone finds nothing invalid that is right.
      return fits(whole, name, changed) !== taken || (taken && !fits(standard, name, changed));
    }),
  );
  expect(wrong).toEqual([]);
  expect(Math.min(seen.taken, seen.refused)).toBeGreaterThan(20);
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
