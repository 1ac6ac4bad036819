/**
 * Checks what callers say to settle a write in doubt, and who says it. The workflow, which trusts no caller, and our
 * own client use it. Pure and safe in workflow code.
 */
import type { ResolveUnknownInput } from '../contract.js';
import { checkObject, InvalidInputError } from '../contract/input-checks.js';
import { parseFields } from '../contract/kinds.js';
import { ADOPT, ATTRIBUTION, SETTLE } from './fields.js';

/** Checks the argument of `resolveUnknown`, not yet whether it fits the write in doubt. */
export function parseResolution(input: unknown): ResolveUnknownInput {
  return { ...parseDecision(input), ...parseAttribution(input) };
}

/** Checks who decides, and why; what is not given is left out. */
export function parseAttribution(input: unknown): { by?: string; note?: string } {
  const { by, note } = parseFields(ATTRIBUTION, checkObject(input, 'argument'));
  return { ...(by !== null && { by }), ...(note !== null && { note }) };
}

function parseDecision(input: unknown): ResolveUnknownInput {
  const fields = checkObject(input, 'resolution');
  switch (fields.action) {
    case 'adopt':
      return parseFields(ADOPT, fields);
    case 'delivered':
    case 'retry':
    case 'abandon':
      return parseFields(SETTLE, fields);
    default:
      throw new InvalidInputError('action', 'must be one of adopt, delivered, retry, abandon');
  }
}
