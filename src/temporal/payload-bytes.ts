/**
 * A Temporal payload as the bytes of its protobuf message, `temporal.api.common.v1.Payload`: a map of metadata (field
 * 1) and the data (field 2). Written by hand, since a client has the SDK's own encoder only by way of other packages.
 */
import type { Payload } from '@temporalio/common';

const METADATA = 0x0a;
const DATA = 0x12;
const KEY = 0x0a;
const VALUE = 0x12;
const NO_BYTES = new Uint8Array();

/** The bytes of a payload. */
export function payloadToBytes({ metadata, data }: Payload): Buffer {
  const entries = Object.entries(metadata ?? {}).map(([name, value]) =>
    field(METADATA, Buffer.concat([field(KEY, Buffer.from(name)), field(VALUE, value)])),
  );
  return Buffer.concat([...entries, ...(data?.length ? [field(DATA, data)] : [])]);
}

/** The payload that some bytes are; throws where they are none. */
export function payloadFromBytes(bytes: Uint8Array): Payload {
  const fields = tryFields(bytes) ?? tryFields(afterLength(bytes));
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

/** Both messages have two fields alone, of the same tags; null where the bytes are something else. */
function tryFields(bytes: Uint8Array): Field[] | null {
  const fields: Field[] = [];
  for (let at = 0; at < bytes.length;) {
    const tag = bytes[at]!;
    const length = readVarint(bytes, at + 1);
    const end = length === null ? Infinity : length.next + length.value;
    if ((tag !== METADATA && tag !== DATA) || length === null || end > bytes.length) return null;
    fields.push({ tag, value: bytes.subarray(length.next, end) });
    at = end;
  }
  return fields;
}

/** Some writers of this scheme put the length of the message before it. */
function afterLength(bytes: Uint8Array): Uint8Array {
  const length = readVarint(bytes, 0);
  const isLength = length !== null && length.next + length.value === bytes.length;
  return isLength ? bytes.subarray(length.next) : Uint8Array.of(0);
}

function readVarint(bytes: Uint8Array, from: number): { value: number; next: number } | null {
  let value = 0;
  for (let at = from, shift = 0; at < bytes.length && shift < 32; at++, shift += 7) {
    value += (bytes[at]! & 0x7f) * 2 ** shift;
    if (bytes[at]! < 0x80) return { value, next: at + 1 };
  }
  return null;
}
