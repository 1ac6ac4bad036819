/**
 * Encrypts payloads with AES-256-GCM in the scheme of Temporal's samples, which callers of other languages copy: the
 * whole payload as protobuf, encrypted, after a nonce of 12 bytes and before the tag of 16. The metadata names the
 * encoding and the key. What is not encrypted is read as it is: histories from before the keys stay readable.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { Payload, PayloadCodec } from '@temporalio/common';
import { payloadFromBytes, payloadToBytes } from './payload-bytes.js';

const ENCODING = 'binary/encrypted';
const KEY_ID = 'encryption-key-id';
const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** A key of AES-256, and the name under which payloads refer to it. */
interface PayloadKey {
  id: string;
  key: Buffer;
}

/** The keys of now; each throws where there is none. */
export interface KeyRing {
  /** The key that encrypts. */
  current(): PayloadKey;
  byId(id: string): PayloadKey;
}

/** A payload whose key is missing fails the read, and is read once the key is there. */
export class EncryptionCodec implements PayloadCodec {
  readonly #keys: KeyRing;

  constructor(keys: KeyRing) {
    this.#keys = keys;
  }

  encode(payloads: Payload[]): Promise<Payload[]> {
    return Promise.resolve().then(() => payloads.map((payload) => encrypted(payload, this.#keys.current())));
  }

  decode(payloads: Payload[]): Promise<Payload[]> {
    return Promise.resolve().then(() => payloads.map((payload) => this.#decodeOne(payload)));
  }

  #decodeOne(payload: Payload): Payload {
    if (textOf(payload, 'encoding') !== ENCODING) return payload;
    return decrypted(payload, this.#keys.byId(textOf(payload, KEY_ID)));
  }
}

/** The codecs of a worker or client: none without keys. */
export function payloadCodecs(keys: KeyRing | undefined): { payloadCodecs: PayloadCodec[] } {
  return { payloadCodecs: keys === undefined ? [] : [new EncryptionCodec(keys)] };
}

function encrypted(payload: Payload, { id, key }: PayloadKey): Payload {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce);
  const text = [cipher.update(payloadToBytes(payload)), cipher.final()];
  return {
    metadata: { encoding: Buffer.from(ENCODING), [KEY_ID]: Buffer.from(id) },
    data: Buffer.concat([nonce, ...text, cipher.getAuthTag()]),
  };
}

function decrypted({ data }: Payload, { id, key }: PayloadKey): Payload {
  const bytes = data ?? new Uint8Array();
  try {
    const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE_BYTES));
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
    const text = [decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()];
    return payloadFromBytes(Buffer.concat(text));
  } catch {
    throw new Error(`a payload was not encrypted with the key "${id}" of PAYLOAD_KEYS_FILE, or was changed`);
  }
}

function textOf({ metadata }: Payload, name: string): string {
  return Buffer.from(metadata?.[name] ?? []).toString();
}
