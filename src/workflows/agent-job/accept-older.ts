/**
 * Checks what callers sent, as strictly as this release does. An open run of an older release may have accepted more:
 * its replay ignores what is malformed there, since the history can't change any more.
 */
import { patched } from '@temporalio/workflow';
import { withoutMalformedOptions } from '../../agent-job/input.js';
import { InvalidInputError } from '../../contract/input-checks.js';

/** Parses an input or a follow-up. Throws InvalidInputError. */
export function parseStrictly<Value>(parse: (input: unknown) => Value, input: unknown): Value {
  try {
    return parse(input);
  } catch (error) {
    if (!(error instanceof InvalidInputError)) throw error;
    const accepted = parseLeniently(parse, input);
    // The marker is recorded where the input is refused alone: a right one costs no event.
    if (accepted === null || patched('newer-options')) throw error;
    return accepted.value;
  }
}

/** Null where an older release refused it too. */
function parseLeniently<Value>(parse: (input: unknown) => Value, input: unknown): { value: Value } | null {
  try {
    return { value: parse(withoutMalformedOptions(input)) };
  } catch (error) {
    if (error instanceof InvalidInputError) return null;
    throw error;
  }
}
