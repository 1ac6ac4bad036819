/** Checks what people write: an unknown field is refused before anything is sent. Workflows ignore such fields. */
import { ADOPT, ATTRIBUTION, CREATE_JOB, SETTLE } from '../agent-job/fields.js';
import { parseResolution } from '../agent-job/input.js';
import type { Attribution, ResolveUnknownInput } from '../contract.js';
import { checkObject, isGiven, type JsonSchema, schemaOf, TEXT } from '../contract/kinds.js';
import { cutToBytes } from '../contract/shared.js';
import { InvalidInputError } from '../contract/errors.js';

/** How what a caller wrote is checked. */
export interface InputOptions {
  /** Also send fields that this release does not know, to workers of a newer one; default false: they are refused. */
  allowUnknown?: boolean | null | undefined;
}

export const INPUT_OPTIONS: Names<InputOptions> = { allowUnknown: true };
export const ATTRIBUTION_OPTIONS: Names<Attribution> = { by: true, note: true };

/** Requests to create a job and to attach to one have fields of the same names. */
const REQUEST = schemaOf({ key: TEXT, ...CREATE_JOB });
const SHOWN_BYTES = 100;

/** Checks that what is to be started is an object of known fields. Throws InvalidInputError. */
export function checkRequest<Request extends object>(request: unknown, options: InputOptions | null): Request {
  checkKnownFields(checkObject(request, 'request'), REQUEST, options);
  return request as Request;
}

const RESOLUTION = schemaOf({ ...SETTLE, ...ADOPT, ...ATTRIBUTION });

/** Checks a decision about a write in doubt: a misspelt `since` would settle another one. Throws InvalidInputError. */
export function checkResolution(resolution: ResolveUnknownInput): ResolveUnknownInput {
  const checked = parseResolution(resolution);
  checkNames<object>(resolution, 'field', RESOLUTION['properties'] as Names<object>);
  return checked;
}

/** All names that an object of ours may have; its type makes sure that none is missing. */
export type Names<T> = Readonly<Record<keyof T, true>>;

/** Throws InvalidInputError where an option, filter or setting is given that a call would not read. */
export function checkNames<T extends object>(given: T | null | undefined, what: string, names: Names<T>): void {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return;
  const unknown = Object.entries(given).find(([name, value]) => isGiven(value) && !Object.hasOwn(names, name));
  if (unknown !== undefined) throw unknownName(unknown[0], `is no ${what} of this call`, Object.keys(names));
}

/** Throws InvalidInputError where a field is given that the schema of the object does not name, at any depth. */
export function checkKnownFields(given: object, schema: JsonSchema, options: InputOptions | null, path = ''): void {
  const properties = schema['properties'] as Record<string, JsonSchema> | undefined;
  // The names of metadata are the caller's own; what is no object has no names.
  if (options?.allowUnknown || properties === undefined || Array.isArray(given)) return;
  for (const [name, value] of Object.entries(given)) {
    if (!isGiven(value)) continue;
    if (!Object.hasOwn(properties, name)) {
      const problem = `is no field that this release knows${options === null ? '' : ' (allowUnknown lets it pass)'}`;
      throw unknownName(name, problem, Object.keys(properties), path);
    }
    if (typeof value === 'object') checkKnownFields(value as object, properties[name]!, options, `${path}${name}.`);
  }
}

function unknownName(name: string, problem: string, known: readonly string[], path = ''): InvalidInputError {
  return new InvalidInputError(path + cutToBytes(name, SHOWN_BYTES), `${problem}: known are ${known.join(', ')}`);
}
