/**
 * The fields of inputs, declared once: how each value is checked, and the JSON Schema that says the same to callers. A
 * wrong value is an InvalidInputError, which names the field and what it should be. Pure and safe in workflow code.
 */
import ms from 'ms';
import { LIMIT, type DurationInput, type Priority } from '../contract.js';
import { InvalidInputError } from './errors.js';
import { encodeId, isObject, jsonBytes, utf8Bytes } from './shared.js';

/** JSON Schema 2020-12. What the standard can't say is said by keywords that begin with `x-`. */
export type JsonSchema = { readonly [keyword: string]: unknown };

/** A kind of value: what callers give, and what a check makes of it. */
export interface Kind<Given, Parsed = Given> {
  /** Throws InvalidInputError, which names the field. */
  readonly check: (value: unknown, field: string) => Parsed;
  /** Made when it is asked for: a workflow never asks. */
  readonly schema: () => JsonSchema;
  /** Whether the field may be left out. */
  readonly isOptional?: boolean;
  /** For types alone: neither more nor less than what the contract's types let callers give. */
  readonly given?: (value: Given) => Given;
}

/** A kind for each field of a type of the contract; the compiler notices one that is missing, or one more. */
export type Kinds<T> = { readonly [Field in keyof T]-?: Kind<Exclude<T[Field], undefined>, unknown> };

/** Kinds by the names of fields. */
export type AnyKinds = { readonly [field: string]: Pick<Kind<never, unknown>, 'check' | 'schema' | 'isOptional'> };

/** What the checks of all fields make. */
export type Parsed<Fields> = {
  -readonly [Field in keyof Fields]: Fields[Field] extends { check: (...args: never[]) => infer Value } ? Value : never;
};

/** Checks each field of an object, in order; other fields are ignored. */
export function parseFields<Fields extends AnyKinds>(
  fields: Fields,
  given: Record<string, unknown>,
  prefix = '',
): Parsed<Fields> {
  const parsed = Object.entries(fields).map(([field, kind]) => [field, kind.check(given[field], prefix + field)]);
  return Object.fromEntries(parsed) as Parsed<Fields>;
}

/** The JSON Schema of an object with these fields. */
export function schemaOf(fields: AnyKinds): JsonSchema {
  const required = Object.keys(fields).filter((field) => !fields[field]!.isOptional);
  return {
    type: 'object',
    properties: Object.fromEntries(Object.entries(fields).map(([field, kind]) => [field, kind.schema()])),
    ...(required.length > 0 && { required }),
  };
}

/** A field that may be left out, or null. With a default, that is checked in place of what is missing. */
export function optional<Given, Value>(
  kind: Kind<Given, Value>,
  ...[byDefault]: [NoInfer<Given>]
): Kind<Given | null, Value>;
export function optional<Given, Value>(kind: Kind<Given, Value>): Kind<Given | null, Value | null>;
export function optional<Given, Value>(kind: Kind<Given, Value>, byDefault?: Given): Kind<Given | null, Value | null> {
  return {
    isOptional: true,
    check: (value, field) => {
      if (isGiven(value)) return kind.check(value, field);
      return byDefault === undefined ? null : kind.check(byDefault, field);
    },
    schema: () => ({ ...nullable(kind.schema()), ...(byDefault !== undefined && { default: byDefault }) }),
  };
}

/** A schema that takes null besides. */
export function nullable(schema: JsonSchema): JsonSchema {
  const { type, enum: values } = schema;
  if (Array.isArray(values)) return { ...schema, type: [type, 'null'], enum: [...(values as unknown[]), null] };
  if (typeof type === 'string') return { ...schema, type: [type, 'null'] };
  return Array.isArray(type) ? { ...schema, type: [...(type as unknown[]), 'null'] } : schema;
}

/** A field that goes with another form of the input: absent or null here. */
export const NOTHING: Kind<null> = {
  isOptional: true,
  check: (value, field) => {
    if (isGiven(value)) throw new InvalidInputError(field, 'must not be given here');
    return null;
  },
  schema: () => ({ type: 'null' }),
};

/** Whether a field is there; null means absent. */
export function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** Stands for a payload that could not be decoded; every check finds it invalid. */
export class Undecodable {
  readonly undecodable = true;
}

/** Checks that a payload is one JSON object. */
export function checkObject(value: unknown, field: string): Record<string, unknown> {
  if (isObject(value) && !(value instanceof Undecodable)) return value;
  const shouldBe =
    value instanceof Undecodable
      ? 'can not be decoded; it must be plain JSON (encoding json/plain), at most 100 levels deep'
      : `must be one JSON object; it is ${kindOf(value)}`;
  throw new InvalidInputError(field, shouldBe);
}

function kindOf(value: unknown): string {
  if (value === undefined) return 'missing';
  if (value === null) return 'null';
  return Array.isArray(value) ? 'an array' : `of type ${typeof value}`;
}

/** Any text. */
export const TEXT: Kind<string> = {
  check: (value, field) => {
    if (typeof value === 'string') return value;
    throw new InvalidInputError(field, `must be a string; it is ${kindOf(value)}`);
  },
  schema: () => ({ type: 'string' }),
};

/** Which texts a field takes. */
interface TextRule {
  maxBytes: number;
  /** The control characters that it takes; default none. */
  controls?: keyof typeof CONTROLS;
  /** What counts is the size when percent-encoded. */
  isEncoded?: true;
  maxJsonBytes?: number;
}

/** Control characters that a field takes: what it must match, in a form that every language reads. */
export const CONTROLS = {
  none: { pattern: '^[^\u0000-\u001f\u007f-\u009f]*$', rule: ' without control characters' },
  lines: {
    pattern: '^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]*$',
    rule: ' without control characters but line breaks and tabs',
  },
  all: { pattern: undefined, rule: '' },
} as const;

/** A well-formed text of 1 byte to a limit. */
export function text({ maxBytes, controls = 'none', isEncoded, maxJsonBytes }: TextRule): Kind<string> {
  const { pattern, rule } = CONTROLS[controls];
  const unit = isEncoded ? 'when percent-encoded' : 'of UTF-8';
  return {
    check: (value, field) => {
      const given = TEXT.check(value, field);
      if (!given.isWellFormed() || (pattern !== undefined && !new RegExp(pattern, 'u').test(given))) {
        throw new InvalidInputError(field, `must be well-formed Unicode${rule}`);
      }
      const bytes = isEncoded ? encodeId(given).length : utf8Bytes(given);
      if (bytes < 1 || bytes > maxBytes) {
        throw new InvalidInputError(field, `must be 1 to ${maxBytes} bytes ${unit}; it is ${bytes}`);
      }
      if (maxJsonBytes === undefined || jsonBytes(given) <= maxJsonBytes) return given;
      throw new InvalidInputError(field, `must be at most ${maxJsonBytes} bytes as JSON`);
    },
    schema: () => ({
      type: 'string',
      minLength: 1,
      maxLength: maxBytes,
      ...(pattern !== undefined && { pattern }),
      'x-well-formed': true,
      [isEncoded ? 'x-max-encoded-bytes' : 'x-max-utf8-bytes']: maxBytes,
      ...(maxJsonBytes !== undefined && { 'x-max-json-bytes': maxJsonBytes }),
    }),
  };
}

const ENCODED = text({ maxBytes: LIMIT.idBytes, isEncoded: true });

/** A project or job id: it becomes one segment of a URL, a path and a workflow id. */
export const ID: Kind<string> = {
  check: (value, field) => {
    if (value === '.' || value === '..') throw new InvalidInputError(field, 'must not be "." or ".."');
    return ENCODED.check(value, field);
  },
  schema: () => ({ ...ENCODED.schema(), not: { enum: ['.', '..'] } }),
};

/** An array of items, each once. */
export function setOf(item: Kind<string>, maxItems: number, items: string): Kind<readonly string[], string[]> {
  return {
    check: (value, field) => {
      if (!Array.isArray(value)) throw new InvalidInputError(field, 'must be an array of strings');
      if (value.length > maxItems) throw new InvalidInputError(field, `must hold at most ${maxItems} ${items}`);
      // Unlike `map`, this checks the holes of a sparse array too, which JSON makes null.
      return [...new Set(Array.from(value, (one: unknown, i) => item.check(one, `${field}[${i}]`)))];
    },
    schema: () => ({ type: 'array', items: item.schema(), maxItems }),
  };
}

/** A number and a unit as the parser reads them; only zero may be negative. */
const DURATION_TEXT =
  '^\\s*(-0*\\.?0+|[0-9]*\\.?[0-9]+) *(milliseconds?|msecs?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|' +
  'days?|d|weeks?|w|years?|yrs?|y)?\\s*$';

/** A number of milliseconds or a string such as `30 seconds`, up to a limit; in milliseconds. */
export function duration(maxMs: number = LIMIT.durationMs, atMost?: string): Kind<DurationInput, number> {
  return {
    check: (value, field) => {
      const millis = typeof value === 'string' ? durationMs(value) : value;
      if (typeof millis !== 'number' || !Number.isFinite(millis) || millis < 0 || millis > LIMIT.durationMs) {
        const form = 'must be a number of milliseconds or a string such as "30 seconds", 0 to 10 years';
        throw new InvalidInputError(field, form);
      }
      if (millis > maxMs) throw new InvalidInputError(field, `must be at most ${atMost}`);
      return Math.round(millis);
    },
    schema: () => ({
      type: ['number', 'string'],
      minimum: 0,
      maximum: maxMs,
      maxLength: 100,
      pattern: ignoringCase(DURATION_TEXT),
      'x-max-duration-ms': maxMs,
    }),
  };
}

function durationMs(text: string): number | undefined {
  if (text.trim() === '' || text.length > 100) return undefined;
  return ms(text.trim() as ms.StringValue) as number | undefined;
}

/** JSON Schema has no flags: each letter becomes its two forms. */
function ignoringCase(pattern: string): string {
  return pattern.replace(/\\s|[a-z]/g, (part) => (part.length > 1 ? part : `[${part.toUpperCase()}${part}]`));
}

/** A whole number within bounds. */
export function whole(minimum: number, maximum: number): Kind<number> {
  return {
    check: (value, field) => {
      if (typeof value === 'number' && Number.isInteger(value) && value >= minimum && value <= maximum) return value;
      const given = typeof value === 'number' ? String(value) : kindOf(value);
      throw new InvalidInputError(field, `must be a whole number from ${minimum} to ${maximum}; it is ${given}`);
    },
    schema: () => ({ type: 'integer', minimum, maximum }),
  };
}

/** The order of what waits, 1 to 5. */
export const PRIORITY = whole(1, 5) as Kind<Priority>;

/** One of several words. */
export function oneOf<const Word extends string>(...words: readonly Word[]): Kind<Word> {
  return {
    check: (value, field) => {
      if (words.includes(value as Word)) return value as Word;
      const list = words.length === 2 ? words.join(' or ') : `one of ${words.join(', ')}`;
      throw new InvalidInputError(field, `must be ${list}`);
    },
    schema: () => ({ type: 'string', enum: [...words] }),
  };
}

/** True or false. */
export const FLAG: Kind<boolean> = {
  check: (value, field) => {
    if (typeof value === 'boolean') return value;
    throw new InvalidInputError(field, 'must be true or false');
  },
  schema: () => ({ type: 'boolean' }),
};

/** Whether a text is the IANA name of a time zone that this runtime knows. */
export function isTimeZone(text: string): boolean {
  // An offset such as +01:00 is no name, though some runtimes take it.
  if (!/^[A-Za-z]/.test(text)) return false;
  try {
    new Intl.DateTimeFormat('en-US', { timeZone: text });
    return true;
  } catch {
    return false;
  }
}

/**
 * The name that servers know: of `europe/paris` that is `Europe/Paris`. Another name of a zone stays, in its own case:
 * `Asia/Kolkata`. The own case of `asia/kolkata` is not known, so it becomes the runtime's name of that zone.
 */
function ownNameOf(timeZone: string): string {
  const { timeZone: own } = new Intl.DateTimeFormat('en-US', { timeZone }).resolvedOptions();
  const isOther = own.toLowerCase() !== timeZone.toLowerCase();
  const parts = timeZone.split('/');
  const isInOwnCase = parts.every((part) => /^[A-Z]/.test(part)) && (parts.length === 1 || /[a-z]/.test(timeZone));
  return isOther && isInOwnCase ? timeZone : own;
}

/** The IANA name of a time zone; in any case. */
export const TIME_ZONE: Kind<string> = {
  check: (value, field) => {
    const timeZone = TEXT.check(value, field);
    if (isTimeZone(timeZone)) return ownNameOf(timeZone);
    throw new InvalidInputError(field, 'must be the IANA name of a time zone, such as Europe/Paris');
  },
  schema: () => ({ type: 'string', pattern: '^[A-Za-z]', 'x-format': 'iana-time-zone' }),
};

/** An object of fields. */
export function object<Given, Fields extends AnyKinds>(fields: Fields): Kind<Given, Parsed<Fields>> {
  return {
    check: (value, field) => parseFields(fields, checkObject(value, field), `${field}.`),
    schema: () => schemaOf(fields),
  };
}
