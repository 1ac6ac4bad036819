/**
 * The default payload converter, except that a payload which can't be decoded becomes a marker that validation refuses:
 * an exception here would fail the workflow task, and repeat for ever.
 */
import { defaultPayloadConverter, type PayloadConverter } from '@temporalio/common';
import { Undecodable } from '../contract/input-checks.js';

export const payloadConverter: PayloadConverter = {
  toPayload: (value, context, hint) => defaultPayloadConverter.toPayload(value, context, hint),
  fromPayload<T>(...args: Parameters<PayloadConverter['fromPayload']>): T {
    try {
      return defaultPayloadConverter.fromPayload(...args) as T;
    } catch {
      return new Undecodable() as T;
    }
  },
};
