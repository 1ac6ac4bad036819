/** The payloads of a history, and whether they can be decoded here. */
import type { Client } from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import { isEncrypted } from '../temporal/payload-codec.js';

/**
 * Throws where a payload stays encrypted: without the keys a history would seem not to fit. All are looked at, for
 * caller and worker each encrypt, or do not, what they write.
 */
export async function checkReadable({ options }: Client, events: readonly unknown[]): Promise<void> {
  const { payloadCodecs } = options.loadedDataConverter;
  for (const event of events) {
    let payloads = payloadsIn(event).filter(isEncrypted);
    if (payloads.length === 0) continue;
    for (const codec of payloadCodecs) payloads = await codec.decode(payloads);
    if (payloads.some(isEncrypted)) {
      throw new Error('it is encrypted: set PAYLOAD_KEYS_FILE to the keys of its workers');
    }
  }
}

/** Wherever they stand in an event: arguments, memo, headers, details of failures within failures. */
function payloadsIn(value: unknown): Payload[] {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return [];
  return isPayload(value) ? [value] : Object.values(value).flatMap(payloadsIn);
}

function isPayload(value: object): value is Payload {
  const { metadata } = value as Payload;
  return ArrayBuffer.isView(metadata?.['encoding']);
}
