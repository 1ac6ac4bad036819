/**
 * Compares the contract with that of the last release: what breaks a caller, and what a caller must be told of. An
 * old sender must be understood, so an input may only take more. An old reader must understand, so an output may only
 * hold more fields.
 */
import type { JsonSchema } from '../../src/contract/kinds.js';
import type { Contract, Message } from './artefacts.js';
import type { Calls } from './calls.js';

/** What changed for callers. */
export interface Change {
  /** `break`: never. `notice`: only where it is declared. */
  readonly kind: 'break' | 'notice';
  /** The place and the change, such as `JobState.phase may be "paused" now`. */
  readonly text: string;
}

/** All changes that concern a caller of the release. */
export function changesSince(released: Contract, present: Contract): Change[] {
  return [
    ...changedShapes(released.schema.$defs, present.schema.$defs, (name) => released.inputs.includes(name)),
    ...changedWorkflows(released, present),
    ...changedMessages(released, present),
    ...changedCalls(released.calls, present.calls),
  ];
}

function changedShapes(before: Defs, now: Defs, isInput: (name: string) => boolean, where = ''): Change[] {
  return Object.keys(before).flatMap((name) => {
    if (!(name in now)) return [broken(`${where}${name} is gone`)];
    const comparison = new Comparison(isInput(name) ? 'input' : 'output', before, now);
    return comparison.compare(before[name]!, now[name]!, where + name);
  });
}

/** Those over HTTP, and the tools of agents. */
function changedCalls(before: Calls, now: Calls): Change[] {
  const [input, output] = (['input', 'output'] as const).map((way) => new Comparison(way, before.$defs, now.$defs));
  const operations = Object.entries(before.operations).flatMap(([name, was]) => {
    const is = now.operations[name];
    if (!is) return [broken(`${name} is gone`)];
    return [
      ...(is.id === was.id ? [] : [broken(`${name} is named ${is.id} now`)]),
      ...(is.request && !was.request ? [broken(`${name} needs a body now`)] : []),
      ...input!.compare(was.parameters, is.parameters, `the parameters of ${name}`),
      ...(was.request && is.request ? input!.compare(was.request, is.request, `the body of ${name}`) : []),
      ...Object.keys(is.answers)
        .filter((status) => !(status in was.answers))
        .map((status) => notice(`${name} may answer ${status} now`)),
      ...Object.entries(was.answers).flatMap(([status, schema]) => {
        const other = is.answers[status];
        return schema && other ? output!.compare(schema, other, `${name} ${status}`) : [];
      }),
    ];
  });
  return [
    ...operations,
    ...changedShapes(before.$defs, now.$defs, (name) => name.endsWith('Request'), 'over HTTP '),
    ...changedShapes(before.tools, now.tools, () => true, 'the tool '),
  ];
}

function broken(text: string): Change {
  return { kind: 'break', text };
}

function notice(text: string): Change {
  return { kind: 'notice', text };
}

function changedWorkflows(released: Contract, present: Contract): Change[] {
  return released.workflows.flatMap((before) => {
    const now = present.workflows.find(({ type }) => type === before.type);
    if (!now) return [broken(`the workflow ${before.type} is gone`)];
    const added = Object.keys(now.failures).filter((failure) => !(failure in before.failures));
    const isOther = (field: 'input' | 'result'): boolean => now[field] !== before[field];
    return [
      ...(isOther('input') ? [broken(`the input of ${before.type} is another shape`)] : []),
      ...(isOther('result') ? [broken(`the result of ${before.type} is another shape`)] : []),
      ...added.map((failure) => notice(`${before.type} may fail as ${failure} now`)),
      ...Object.entries(before.failures).flatMap(([failure, details]) =>
        (now.failures[failure] ?? [])
          .filter((shape) => details.length > 0 && !details.includes(shape))
          .map((shape) => notice(`${before.type} may fail as ${failure} with ${shape} now`)),
      ),
    ];
  });
}

function changedMessages(released: Contract, present: Contract): Change[] {
  return released.messages.flatMap((before) => {
    const { workflow, kind, name } = before;
    const now = present.messages.find(
      (message) => message.workflow === workflow && message.kind === kind && message.name === name,
    );
    return now
      ? changedMessage(before, now, released, present)
      : [broken(`the ${kind} ${name} of ${workflow} is gone`)];
  });
}

function changedMessage(before: Message, now: Message, released: Contract, present: Contract): Change[] {
  const name = `${before.workflow}.${before.name}`;
  const isAnswerGone = before.answer !== null && now.answer === null;
  return [
    ...(!before.argument && now.argument && !now.isArgumentOptional ? [broken(`${name} needs an argument now`)] : []),
    ...(before.isArgumentOptional && now.argument && !now.isArgumentOptional
      ? [broken(`${name} needs its argument now`)]
      : []),
    ...(isAnswerGone ? [broken(`${name} answers nothing now`)] : []),
    ...(before.argument && now.argument
      ? new Comparison('input', released.schema.$defs, present.schema.$defs).compare(
          before.argument,
          now.argument,
          `the argument of ${name}`,
        )
      : []),
    ...(before.answer && now.answer
      ? new Comparison('output', released.schema.$defs, present.schema.$defs).compare(
          before.answer,
          now.answer,
          `the answer of ${name}`,
        )
      : []),
  ];
}

type Defs = Readonly<Record<string, JsonSchema>>;
type Properties = Readonly<Record<string, JsonSchema>>;

/** Keywords that bound a value from above or from below; a missing one bounds nothing. */
const UPPER = /^(maximum|maxLength|maxItems|x-max-.*)$/;
const LOWER = /^(minimum|minLength)$/;
/** Keywords that are compared by themselves, or narrow nothing. What another one says can't be compared. */
const COMPARED = [
  'type',
  'enum',
  'properties',
  'required',
  'items',
  'additionalProperties',
  'description',
  'title',
  'default',
];

/** The parts of a list, and of a record. */
const PARTS = ['items', 'additionalProperties'];

/** Compares one shape: what is read as `wide` must take all that `narrow` lets through. */
class Comparison {
  readonly #isInput: boolean;
  readonly #before: Defs;
  readonly #now: Defs;

  constructor(direction: 'input' | 'output', before: Defs, now: Defs) {
    this.#isInput = direction === 'input';
    this.#before = before;
    this.#now = now;
  }

  compare(before: JsonSchema, now: JsonSchema, at: string): Change[] {
    // A shape of the same name is compared by itself.
    if (before['$ref'] !== undefined && before['$ref'] === now['$ref']) return [];
    const [was, is] = [follow(before, this.#before), follow(now, this.#now)];
    const [narrow, wide] = this.#isInput ? [forms(was), forms(is)] : [forms(is), forms(was)];
    if (narrow.length === 1 && wide.length === 1) return this.#comparePlain(was, is, at);
    return narrow.flatMap((form) => this.#closest(form, wide, at));
  }

  /** Each form must fit one of the other side; where none does, the closest tells why. */
  #closest(form: JsonSchema, others: readonly JsonSchema[], at: string): Change[] {
    const named = others.filter((other) => form['$ref'] !== undefined && other['$ref'] === form['$ref']);
    const candidates = named.length > 0 ? named : others;
    const found = candidates.map((other) =>
      this.#isInput ? this.compare(form, other, at) : this.compare(other, form, at),
    );
    const severity = (changes: readonly Change[]): number =>
      changes.reduce((sum, { kind }) => sum + (kind === 'break' ? 1_000 : 1), 0);
    return found.toSorted((a, b) => severity(a) - severity(b))[0] ?? [broken(`${at} has no form that fits`)];
  }

  #comparePlain(before: JsonSchema, now: JsonSchema, at: string): Change[] {
    return [
      ...this.#compareTypes(before, now, at),
      ...this.#compareWords(before, now, at),
      ...(this.#isInput ? narrowedBounds(before, now, at) : []),
      ...this.#compareFields(before, now, at),
      ...this.#compareParts(before['items'], now['items'], `${at}[]`),
      ...this.#compareParts(before['additionalProperties'], now['additionalProperties'], `${at}{}`),
    ];
  }

  #compareParts(before: unknown, now: unknown, at: string): Change[] {
    if (!before) return [];
    if (now) return this.compare(before as JsonSchema, now as JsonSchema, at);
    return this.#isInput ? [] : [notice(`${at} may be any now`)];
  }

  #compareTypes(before: JsonSchema, now: JsonSchema, at: string): Change[] {
    const [was, is] = [typesOf(before), typesOf(now)];
    if (this.#isInput) return without(was, is).map((type) => broken(`${at} may be no ${type} any more`));
    return without(is, was).map((type) => notice(`${at} may be ${type} now`));
  }

  #compareWords(before: JsonSchema, now: JsonSchema, at: string): Change[] {
    const [was, is] = [before['enum'], now['enum']] as [unknown[] | undefined, unknown[] | undefined];
    const [from, to] = this.#isInput ? [was, is] : [is, was];
    if (!to) return [];
    if (!from) return [this.#isInput ? broken(`${at} takes certain words alone now`) : notice(`${at} may be any now`)];
    const lost = without(from, to).filter((word) => word !== null);
    const quoted = lost.map((word) => JSON.stringify(word));
    if (this.#isInput) return quoted.map((word) => broken(`${at} may be ${word} no more`));
    return quoted.map((word) => notice(`${at} may be ${word} now`));
  }

  #compareFields(before: JsonSchema, now: JsonSchema, at: string): Change[] {
    const [was, is] = [before, now].map(({ properties = {} }) => properties as Properties) as [Properties, Properties];
    const [mustBefore, mustNow] = [before, now].map(({ required = [] }) => required as string[]) as [
      string[],
      string[],
    ];
    const needed = this.#isInput
      ? without(mustNow, mustBefore).map((field) => broken(`${at}.${field} is required now`))
      : without(mustBefore, mustNow)
          .filter((field) => field in is)
          .map((field) => broken(`${at}.${field} may be missing now`));
    const fields = Object.entries(was).flatMap(([field, schema]) => {
      const other = is[field];
      return other ? this.compare(schema, other, `${at}.${field}`) : [broken(`${at}.${field} is gone`)];
    });
    return [...needed, ...fields];
  }
}

function narrowedBounds(before: JsonSchema, now: JsonSchema, at: string): Change[] {
  const isOtherDefault = 'default' in now && !isSame(before['default'], now['default']);
  const isNewRule = (keyword: string): boolean =>
    !COMPARED.includes(keyword) || (PARTS.includes(keyword) && !before[keyword]);
  const bounds = Object.keys(now).filter(isNewRule);
  return [
    ...(isOtherDefault ? [notice(`${at} is ${JSON.stringify(now['default'])} by default now`)] : []),
    ...bounds.flatMap((keyword) => narrowedBound(keyword, before[keyword], now[keyword], at)),
  ];
}

/** A new rule narrows; another one may. */
function narrowedBound(keyword: string, was: unknown, is: unknown, at: string): Change[] {
  if (isSame(was, is)) return [];
  const sign = UPPER.test(keyword) ? 1 : LOWER.test(keyword) ? -1 : 0;
  if (was === undefined) return [broken(`${at} has the rule ${keyword} now`)];
  if (sign === 0) return [notice(`${at} has another ${keyword} now`)];
  const [from, to] = [was, is] as [number, number];
  return sign * to < sign * from ? [broken(`${at} has ${keyword} ${to} now, not ${from}`)] : [];
}

function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function without<T>(list: readonly T[], others: readonly T[]): T[] {
  return list.filter((item) => !others.includes(item));
}

function follow(schema: JsonSchema, defs: Defs): JsonSchema {
  const { $ref } = schema as { $ref?: string };
  return $ref === undefined ? schema : follow(defs[$ref.slice('#/$defs/'.length)]!, defs);
}

function forms(schema: JsonSchema): readonly JsonSchema[] {
  return ((schema['oneOf'] ?? schema['anyOf']) as JsonSchema[] | undefined) ?? [schema];
}

/** Whole numbers are numbers too. */
function typesOf({ type, enum: words }: JsonSchema): string[] {
  if (type === undefined) return words === undefined ? ALL_TYPES : [];
  const types = [type].flat() as string[];
  return types.includes('number') ? [...types, 'integer'] : types;
}

const ALL_TYPES = ['string', 'number', 'integer', 'boolean', 'array', 'object', 'null'];
