/** What to do where the SDK's converter, which knows of no keys, met an encrypted payload. */

const KEYS_HINT = 'set PAYLOAD_KEYS_FILE here and for the workers';

/** An error's message, or another text that quotes it. */
export function withKeysHint(message: string): string {
  return message.includes('Unknown encoding: binary/encrypted') ? `${message}; ${KEYS_HINT}` : message;
}
