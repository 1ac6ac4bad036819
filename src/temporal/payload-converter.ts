/**
 * A payload that can't be decoded fails the SDK's workflow task, which the server repeats for ever:
 * temporalio/sdk-typescript#1139. This converter returns a marker instead, which no check of an input takes. It can go
 * when such a payload fails the message alone. Nor can a value that is nested too deeply be made JSON again, or be
 * copied between threads: it counts as one that can't be decoded.
 */
import { defaultPayloadConverter, type PayloadConverter } from '@temporalio/common';
import { Undecodable } from '../contract/kinds.js';

/** Tens of times deeper than any value of the contract, and far less deep than the stack allows. */
const MAX_VALUE_DEPTH = 100;

/** The converter of workers and workflows. */
export const payloadConverter: PayloadConverter = {
  toPayload: (value, context, hint) => defaultPayloadConverter.toPayload(value, context, hint),
  fromPayload<T>(...args: Parameters<PayloadConverter['fromPayload']>): T {
    try {
      const value: unknown = defaultPayloadConverter.fromPayload(...args);
      return (isTooDeep(value) ? new Undecodable() : value) as T;
    } catch {
      return new Undecodable() as T;
    }
  },
};

/** Level by level: a function that calls itself would exhaust the stack, too. */
function isTooDeep(value: unknown): boolean {
  let level = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_VALUE_DEPTH) return true;
    level = level.flatMap((item) => (hasItems(item) ? Object.values(item) : []));
  }
  return false;
}

function hasItems(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !ArrayBuffer.isView(value);
}
