/**
 * Encrypts payloads with AES-256-GCM in the scheme of Temporal's samples, which callers of other languages copy: the
 * whole payload as protobuf, encrypted, after a nonce of 12 bytes and before the tag of 16. The metadata names the
 * encoding and the key. What is not encrypted is read as it is: histories from before the keys stay readable.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { Payload, PayloadCodec } from '@temporalio/common';
import proto from '@temporalio/proto';
import { PayloadKeysError } from '../contract/errors.js';

const { Payload: PayloadMessage } = proto.temporal.api.common.v1;

const ENCODING = 'binary/encrypted';
const KEY_ID = 'encryption-key-id';
const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** The keys of AES-256 as they are now, each under the id by which payloads name it. */
export interface KeyRing {
  /** The key that encrypts; rejects if there is none. */
  current(): Promise<[id: string, key: Buffer]>;
  /** Rejects if it has no such key. */
  byId(id: string): Promise<Buffer>;
}

/** A payload whose key is missing fails the read, and is read once the key is there. */
export class EncryptionCodec implements PayloadCodec {
  readonly #keys: KeyRing;
  readonly #onPlain: (payloads: number) => void;

  /** `onPlain` gets the number of payloads that were read and are not encrypted. */
  constructor(keys: KeyRing, onPlain: (payloads: number) => void = () => {}) {
    this.#keys = keys;
    this.#onPlain = onPlain;
  }

  encode(payloads: Payload[]): Promise<Payload[]> {
    return Promise.all(payloads.map(async (payload) => encrypted(payload, ...(await this.#keys.current()))));
  }

  decode(payloads: Payload[]): Promise<Payload[]> {
    const plain = payloads.filter((payload) => !isEncrypted(payload)).length;
    if (plain > 0) this.#onPlain(plain);
    return Promise.all(payloads.map((payload) => this.#decodeOne(payload)));
  }

  async #decodeOne(payload: Payload): Promise<Payload> {
    if (!isEncrypted(payload)) return payload;
    const id = textOf(payload, KEY_ID);
    return decrypted(payload, id, await this.#keys.byId(id));
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
  const text = [cipher.update(PayloadMessage.encode(payload).finish()), cipher.final()];
  return {
    metadata: { encoding: Buffer.from(ENCODING), [KEY_ID]: Buffer.from(id) },
    data: Buffer.concat([nonce, ...text, cipher.getAuthTag()]),
  };
}

function decrypted({ data }: Payload, id: string, key: Buffer): Payload {
  const bytes = data ?? new Uint8Array();
  try {
    // From fewer bytes the cipher would take a short tag, which is guessed more easily.
    if (bytes.length < NONCE_BYTES + TAG_BYTES) throw new Error('too short');
    const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
    const text = [decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()];
    const { metadata, data: value } = PayloadMessage.decode(Buffer.concat(text));
    return { metadata, data: value };
  } catch {
    const text = `a payload was not encrypted with the key "${id}" of the payload keys file, or was changed`;
    throw new PayloadKeysError(text);
  }
}

function textOf({ metadata }: Payload, name: string): string {
  return Buffer.from(metadata?.[name] ?? []).toString();
}
