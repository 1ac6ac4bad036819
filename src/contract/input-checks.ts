/**
 * Checks that the inputs of all workflows share. A wrong value is an InvalidInputError, which names the field and what
 * it should be. Pure and safe in workflow code.
 */
import ms from 'ms';
import { encodeId, LIMIT } from '../contract.js';
import { AgentJobsError } from './errors.js';
import { isObject } from './shared.js';

/** Names the field that is wrong and what it should be. */
export class InvalidInputError extends AgentJobsError {
  override readonly name = 'InvalidInputError';
  override readonly code = 'INVALID_INPUT';
  readonly field: string;
  constructor(field: string, shouldBe: string) {
    super(`${field} ${shouldBe}`);
    this.field = field;
  }
}

/** Checks that a value is a string. */
export function checkString(value: unknown, field: string): string {
  if (typeof value !== 'string') throw new InvalidInputError(field, `must be a string; it is ${kindOf(value)}`);
  return value;
}

/** Checks that a payload is one JSON object. */
export function checkObject(value: unknown, field: string): Record<string, unknown> {
  if (value instanceof Undecodable) {
    throw new InvalidInputError(
      field,
      'can not be decoded; it must be plain JSON (encoding json/plain), at most 100 levels deep',
    );
  }
  if (!isObject(value)) {
    throw new InvalidInputError(field, `must be one JSON object; it is ${kindOf(value)}`);
  }
  return value;
}

/** Whether a field is there; null means absent. */
export function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

function kindOf(value: unknown): string {
  if (value === undefined) return 'missing';
  if (value === null) return 'null';
  return Array.isArray(value) ? 'an array' : `of type ${typeof value}`;
}

/** Stands for a payload that could not be decoded; every check refuses it. */
export class Undecodable {
  readonly undecodable = true;
}

/** Which texts a field takes. */
export interface TextRule {
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

/** Checks a text: well-formed, and 1 byte to a limit. */
export function checkText(value: unknown, field: string, { controls = 'none', ...limits }: TextRule): string {
  const text = checkString(value, field);
  const { pattern, rule } = CONTROLS[controls];
  if (!text.isWellFormed() || (pattern !== undefined && !new RegExp(pattern, 'u').test(text))) {
    throw new InvalidInputError(field, `must be well-formed Unicode${rule}`);
  }
  const { maxBytes, isEncoded, maxJsonBytes } = limits;
  const bytes = isEncoded ? encodeId(text).length : utf8Bytes(text);
  if (bytes < 1 || bytes > maxBytes) {
    const unit = isEncoded ? 'when percent-encoded' : 'of UTF-8';
    throw new InvalidInputError(field, `must be 1 to ${maxBytes} bytes ${unit}; it is ${bytes}`);
  }
  if (maxJsonBytes === undefined || jsonBytes(text) <= maxJsonBytes) return text;
  throw new InvalidInputError(field, `must be at most ${maxJsonBytes} bytes as JSON`);
}

/** Checks a project or job id: it becomes one segment of a URL, a path and a workflow id. */
export function checkId(value: unknown, field: string): string {
  if (value === '.' || value === '..') throw new InvalidInputError(field, 'must not be "." or ".."');
  return checkText(value, field, { maxBytes: LIMIT.idBytes, isEncoded: true });
}

/** Checks a duration: a number of milliseconds or a string such as `30 seconds`, 0 to 10 years. */
export function checkDuration(value: unknown, field: string): number {
  const millis = typeof value === 'number' ? value : typeof value === 'string' ? durationMs(value) : undefined;
  if (millis === undefined || !Number.isFinite(millis) || millis < 0 || millis > LIMIT.durationMs) {
    throw new InvalidInputError(
      field,
      'must be a number of milliseconds or a string such as "30 seconds", 0 to 10 years',
    );
  }
  return Math.round(millis);
}

/** Checks a whole number within bounds. */
export function checkWholeNumber(value: unknown, field: string, [min, max]: readonly [number, number]): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value;
  const given = typeof value === 'number' ? String(value) : kindOf(value);
  throw new InvalidInputError(field, `must be a whole number from ${min} to ${max}; it is ${given}`);
}

/** Size of a text as UTF-8. */
export function utf8Bytes(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** The longest beginning of a text that fits into a number of bytes of UTF-8, never half a character. */
export function cutToBytes(text: string, bytes: number): string {
  const whole = text.toWellFormed();
  return whole.slice(0, new TextEncoder().encodeInto(whole, new Uint8Array(bytes)).read);
}

/** Size of a value as JSON in UTF-8. */
export function jsonBytes(value: unknown): number {
  return utf8Bytes(JSON.stringify(value));
}

function durationMs(text: string): number | undefined {
  if (text.trim() === '' || text.length > 100) return undefined;
  return ms(text.trim() as ms.StringValue) as number | undefined;
}
