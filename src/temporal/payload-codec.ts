/**
 * Encrypts payloads with AES-256-GCM in the scheme of Temporal's samples, which callers of other languages copy: the
 * whole payload as protobuf, encrypted, after a nonce of 12 bytes and before the tag of 16. The metadata names the
 * encoding and the key. What is not encrypted is read as it is: histories from before the keys stay readable.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { Payload, PayloadCodec } from '@temporalio/common';
import { PayloadKeysError } from '../contract/errors.js';

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
    const text = `a payload was not encrypted with the key "${id}" of the payload keys file, or was changed`;
    throw new PayloadKeysError(text);
  }
}

function textOf({ metadata }: Payload, name: string): string {
  return Buffer.from(metadata?.[name] ?? []).toString();
}

// A Temporal payload as the bytes of its protobuf message, `temporal.api.common.v1.Payload`: a map of metadata (field
// 1) and the data (field 2). Written by hand, since a client has the SDK's own encoder only by way of other packages.

const METADATA = 0x0a;
const DATA = 0x12;
const KEY = 0x0a;
const VALUE = 0x12;
const KNOWN = [METADATA, DATA];
const NO_BYTES = new Uint8Array();
// Of protobuf: the wire types, but for groups, which are no more used; the greatest number of a field; and the bytes of
// the longest number.
const VARINT = 0;
const FIXED_64 = 1;
const DELIMITED = 2;
const FIXED_32 = 5;
const MAX_NUMBER = 2 ** 29 - 1;
const MAX_VARINT_BYTES = 10;

/** The bytes of a payload. */
function payloadToBytes({ metadata, data }: Payload): Buffer {
  const entries = Object.entries(metadata ?? {}).map(([name, value]) =>
    field(METADATA, Buffer.concat([field(KEY, Buffer.from(name)), field(VALUE, value)])),
  );
  return Buffer.concat([...entries, ...(data?.length ? [field(DATA, data)] : [])]);
}

/** The payload that some bytes are; throws where they are none. */
function payloadFromBytes(bytes: Uint8Array): Payload {
  // The length first: it may look like the tag of a field to skip, while metadata never look like a length.
  const fields = tryFields(afterLength(bytes)) ?? tryFields(bytes);
  if (!fields) throw new Error('what was encrypted is no payload');
  const valuesOf = (wanted: number) => fields.filter(({ tag }) => tag === wanted).map(({ value }) => value);
  return { metadata: Object.fromEntries(valuesOf(METADATA).map(entryOf)), data: valuesOf(DATA).at(-1) ?? NO_BYTES };
}

function field(tag: number, value: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from([tag, ...varint(value.length)]), value]);
}

function varint(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)];
}

interface Field {
  tag: number;
  value: Uint8Array;
}

function entryOf(bytes: Uint8Array): [name: string, value: Uint8Array] {
  const fields = tryFields(bytes) ?? [];
  const last = (wanted: number) => fields.findLast(({ tag }) => tag === wanted)?.value ?? NO_BYTES;
  return [Buffer.from(last(KEY)).toString(), last(VALUE)];
}

/** The fields that both messages have, of the same tags, without those of a newer protocol; null where it is none. */
function tryFields(bytes: Uint8Array): Field[] | null {
  const fields: Field[] = [];
  for (let at = 0; at < bytes.length;) {
    const tag = readVarint(bytes, at);
    const [from, to] = (tag && tryExtent(bytes, tag.value, tag.next)) ?? [Infinity, Infinity];
    if (to > bytes.length) return null;
    if (KNOWN.includes(tag!.value)) fields.push({ tag: tag!.value, value: bytes.subarray(from, to) });
    at = to;
  }
  return fields;
}

/** Where the value behind a tag begins and ends; null where no message has such a tag. */
function tryExtent(bytes: Uint8Array, tag: number, at: number): [from: number, to: number] | null {
  const [number, type] = [Math.floor(tag / 8), tag % 8];
  const isKnown = KNOWN.some((known) => number === known >> 3);
  if (number === 0 || number > MAX_NUMBER || (isKnown && type !== DELIMITED)) return null;
  if (type === FIXED_64) return [at, at + 8];
  if (type === FIXED_32) return [at, at + 4];
  const read = type === VARINT || type === DELIMITED ? readVarint(bytes, at) : null;
  if (read === null) return null;
  return type === VARINT ? [at, read.next] : [read.next, read.next + read.value];
}

/** Some writers of this scheme put the length of the message before it. */
function afterLength(bytes: Uint8Array): Uint8Array {
  const length = readVarint(bytes, 0);
  const isLength = length !== null && length.next + length.value === bytes.length;
  return isLength ? bytes.subarray(length.next) : Uint8Array.of(0);
}

function readVarint(bytes: Uint8Array, from: number): { value: number; next: number } | null {
  let value = 0;
  for (let at = from; at < bytes.length && at < from + MAX_VARINT_BYTES; at++) {
    value += (bytes[at]! & 0x7f) * 2 ** (7 * (at - from));
    if (bytes[at]! < 0x80) return { value, next: at + 1 };
  }
  return null;
}
