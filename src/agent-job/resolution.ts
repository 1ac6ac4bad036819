/**
 * Checks what callers say to settle a write in doubt, and who says it. The workflow, which trusts no caller, and our
 * own client use it. Pure and safe in workflow code.
 */
import { LIMIT, type Attribution, type ResolveUnknownInput } from '../contract.js';
import { checkId, checkObject, checkString, InvalidInputError, isGiven, utf8Bytes } from '../contract/input-checks.js';

/** Checks the argument of `resolveUnknown`, not yet whether it fits the write in doubt. */
export function parseResolution(input: unknown): ResolveUnknownInput {
  return { ...parseDecision(input), ...parseAttribution(input) };
}

/**
 * As `parseResolution`, for an argument that was accepted before: a release that knew neither `by` nor `note` accepted
 * any value there.
 */
export function parseAcceptedResolution(input: unknown): ResolveUnknownInput {
  const decision = parseDecision(input);
  try {
    return { ...decision, ...parseAttribution(input) };
  } catch {
    return decision;
  }
}

/** Checks who decides, and why; what is not given is left out. */
export function parseAttribution(input: unknown): { by?: string; note?: string } {
  const { by, note } = checkObject(input, 'argument');
  return {
    ...(isGiven(by) && { by: checkShortText(by, 'by', LIMIT.decisionByBytes, /\p{Cc}/u) }),
    // A note may have several lines.
    ...(isGiven(note) && { note: checkShortText(note, 'note', LIMIT.decisionNoteBytes, /(?![\t\n\r])\p{Cc}/u) }),
  };
}

function parseDecision(input: unknown): ResolveUnknownInput {
  const fields = checkObject(input, 'resolution');
  const since = isGiven(fields.since) ? checkString(fields.since, 'since') : null;
  const followUpId = isGiven(fields.followUpId) ? checkString(fields.followUpId, 'followUpId') : null;
  switch (fields.action) {
    case 'adopt':
      return {
        action: 'adopt',
        jobId: checkId(fields.jobId, 'jobId'),
        force: checkFlag(fields.force),
        since,
        followUpId,
      };
    case 'delivered':
    case 'retry':
    case 'abandon':
      return { action: fields.action, since, followUpId };
    default:
      throw new InvalidInputError('action', 'must be one of adopt, delivered, retry, abandon');
  }
}

function checkFlag(value: unknown): boolean {
  if (isGiven(value) && typeof value !== 'boolean') throw new InvalidInputError('force', 'must be true or false');
  return value === true;
}

function checkShortText(value: unknown, field: keyof Attribution, maxBytes: number, forbidden: RegExp): string {
  const text = checkString(value, field);
  if (!text.isWellFormed() || forbidden.test(text)) {
    const except = field === 'note' ? ' but line breaks and tabs' : '';
    throw new InvalidInputError(field, `must be well-formed Unicode without control characters${except}`);
  }
  const bytes = utf8Bytes(text);
  if (bytes < 1 || bytes > maxBytes) {
    throw new InvalidInputError(field, `must be 1 to ${maxBytes} bytes of UTF-8; it is ${bytes}`);
  }
  return text;
}
