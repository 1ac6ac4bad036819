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

/** The keys of AES-256 as they are now, each under the id by which payloads name it. */
export interface KeyRing {
  /** The key that encrypts; throws where there is none. */
  current(): [id: string, key: Buffer];
  /** Throws where it has no such key. */
  byId(id: string): Buffer;
}

/** A payload whose key is missing fails the read, and is read once the key is there. */
export class EncryptionCodec implements PayloadCodec {
  readonly #keys: KeyRing;
  readonly #onPlain: (payloads: number) => void;

  /** `onPlain` is told how many payloads were read that nobody had encrypted. */
  constructor(keys: KeyRing, onPlain: (payloads: number) => void = () => {}) {
    this.#keys = keys;
    this.#onPlain = onPlain;
  }

  encode(payloads: Payload[]): Promise<Payload[]> {
    return Promise.resolve().then(() => payloads.map((payload) => encrypted(payload, ...this.#keys.current())));
  }

  decode(payloads: Payload[]): Promise<Payload[]> {
    return Promise.resolve().then(() => {
      const plain = payloads.filter((payload) => !isEncrypted(payload)).length;
      if (plain > 0) this.#onPlain(plain);
      return payloads.map((payload) => this.#decodeOne(payload));
    });
  }

  #decodeOne(payload: Payload): Payload {
    if (!isEncrypted(payload)) return payload;
    const id = textOf(payload, KEY_ID);
    return decrypted(payload, id, this.#keys.byId(id));
  }
}

/** The codecs of a worker or client: none without keys. */
export function payloadCodecs(
  keys: KeyRing | undefined,
  onPlain?: (payloads: number) => void,
): { payloadCodecs: PayloadCodec[] } {
  return { payloadCodecs: keys === undefined ? [] : [new EncryptionCodec(keys, onPlain)] };
}

/** Whether a payload is encrypted in this scheme. */
export function isEncrypted(payload: Payload): boolean {
  return textOf(payload, 'encoding') === ENCODING;
}

function encrypted(payload: Payload, id: string, key: Buffer): Payload {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce);
  const text = [cipher.update(payloadToBytes(payload)), cipher.final()];
  return {
    metadata: { encoding: Buffer.from(ENCODING), [KEY_ID]: Buffer.from(id) },
    data: Buffer.concat([nonce, ...text, cipher.getAuthTag()]),
  };
}

function decrypted({ data }: Payload, id: string, key: Buffer): Payload {
  const bytes = data ?? new Uint8Array();
  try {
    // Of fewer bytes the cipher would take a short tag, which is guessed more easily.
    if (bytes.length < NONCE_BYTES + TAG_BYTES) throw new Error('too short');
    const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
    const text = [decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()];
    return payloadFromBytes(Buffer.concat(text));
  } catch {
    throw new Error(`a payload was not encrypted with the key "${id}" of the payload keys file, or was changed`);
  }
}

function textOf({ metadata }: Payload, name: string): string {
  return Buffer.from(metadata?.[name] ?? []).toString();
}
