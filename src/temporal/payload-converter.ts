/**
 * A payload that can't be decoded fails the SDK's workflow task, which the server repeats for ever:
 * temporalio/sdk-typescript#1139. This converter returns a marker instead, which the checks of inputs refuse. It can go
 * when such a payload fails the message alone.
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
