/** What services import that encrypt what they send: the codec of a file of keys. */
import type { PayloadCodec } from '@temporalio/common';
import { PayloadKeys, payloadKeysProblem } from '../config/payload-keys.js';
import { PayloadKeysError } from '../contract/errors.js';
import { EncryptionCodec } from '../temporal/payload-codec.js';

export { PayloadKeysError };

/**
 * The codec of a file of keys, the one of the workers' `PAYLOAD_KEYS_FILE`, for the `payloadCodecs` of a
 * `dataConverter`. It reads the file again when it changes. Throws PayloadKeysError if the file has no usable key.
 *
 * @example
 * ```ts
 * // The file of the workers' PAYLOAD_KEYS_FILE.
 * const codec = openPayloadCodec('/run/secrets/payload_keys');
 * const jobs = await AgentJobs.connect({ dataConverter: { payloadCodecs: [codec] } });
 * ```
 */
export function openPayloadCodec(keysFile: string): PayloadCodec {
  checkNamed(keysFile);
  const problem = payloadKeysProblem(keysFile);
  if (problem !== null) throw new PayloadKeysError(`the payload keys file ${keysFile} is unusable: ${problem}`);
  return new EncryptionCodec(new PayloadKeys(keysFile));
}

/** The variable that should name the file may be unset: a JavaScript caller has no types. */
function checkNamed(keysFile: unknown): void {
  if (typeof keysFile === 'string' && keysFile !== '') return;
  throw new PayloadKeysError('no file of payload keys was named: give its path');
}
