import { randomBytes, webcrypto } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import proto from '@temporalio/proto';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import { beforeEach, expect, test } from 'vitest';
import { EncryptionCodec } from '../../src/temporal/payload-codec.js';
import { PayloadKeys, payloadKeysProblem } from '../../src/config/payload-keys.js';
import { newFolder } from '../support/folder.js';

const { Payload: PayloadMessage } = proto.temporal.api.common.v1;
const KEYS = { one: randomBytes(32), two: randomBytes(32) };
const VALUES = ['', 'text', { a: [1, null, 'ü'.repeat(100)] }, null, 'x'.repeat(70_000), randomBytes(300)];

let folder: string;
let file: string;
beforeEach(async () => {
  folder = newFolder();
  file = join(folder, 'keys.json');
});

function ring(current: string, keys: Record<string, Buffer> = KEYS): string {
  const encoded = Object.entries(keys).map(([id, key]) => [id, key.toString('base64')]);
  return JSON.stringify({ current, keys: Object.fromEntries(encoded) as object });
}

async function codecOf(text = ring('one')): Promise<EncryptionCodec> {
  await writeFile(file, text);
  return codecOn(file);
}

const codecOn = (path: string): EncryptionCodec => new EncryptionCodec(new PayloadKeys(path));
const payloadOf = (value: unknown): Payload => defaultPayloadConverter.toPayload(value)!;
const plain = ({ metadata, data }: Payload) => ({
  metadata: Object.fromEntries(
    Object.entries(metadata ?? {}).map(([name, value]) => [name, Buffer.from(value).toString()]),
  ),
  data: Buffer.from(data ?? []).toString('hex'),
});

/** The published scheme, as callers of other languages write it. */
async function encryptedElsewhere(payload: Payload): Promise<Payload> {
  const bytes = PayloadMessage.encode(payload).finish();
  const nonce = randomBytes(12);
  const key = await webcrypto.subtle.importKey('raw', KEYS.one, 'AES-GCM', false, ['encrypt']);
  const text = await webcrypto.subtle.encrypt({ name: 'AES-GCM', iv: nonce, tagLength: 128 }, key, bytes);
  const metadata = { encoding: Buffer.from('binary/encrypted'), 'encryption-key-id': Buffer.from('one') };
  return { metadata, data: Buffer.concat([nonce, Buffer.from(text)]) };
}

test('whatever is encrypted is read again, and no two are alike', async () => {
  const codec = await codecOf();
  for (const payload of VALUES.map(payloadOf)) {
    const [first, second] = await codec.encode([payload, payload]);
    expect(Buffer.from(first!.data!)).not.toEqual(Buffer.from(second!.data!));
    for (const decoded of await codec.decode([first!, second!])) expect(plain(decoded)).toEqual(plain(payload));
  }
  expect(await codec.encode([])).toEqual([]);
});

test('another reader of the published scheme reads it', async () => {
  const codec = await codecOf();
  const key = await webcrypto.subtle.importKey('raw', KEYS.one, 'AES-GCM', false, ['decrypt']);
  for (const payload of VALUES.map(payloadOf)) {
    const [encoded] = await codec.encode([payload]);
    expect(plain(encoded!).metadata).toEqual({ encoding: 'binary/encrypted', 'encryption-key-id': 'one' });
    const data = Buffer.from(encoded!.data!);
    const text = await webcrypto.subtle.decrypt({ name: 'AES-GCM', iv: data.subarray(0, 12) }, key, data.subarray(12));
    expect(plain(PayloadMessage.decode(new Uint8Array(text)))).toEqual(plain(payload));
  }
});

test('what another writer of the scheme encrypted is read', async () => {
  const codec = await codecOf();
  for (const payload of VALUES.map(payloadOf)) {
    const [decoded] = await codec.decode([await encryptedElsewhere(payload)]);
    expect(plain(decoded!)).toEqual(plain(payload));
  }
});

test('what was never encrypted is read as it is, and counted', async () => {
  const counts: number[] = [];
  await writeFile(file, ring('one'));
  const codec = new EncryptionCodec(new PayloadKeys(file), (payloads) => counts.push(payloads));
  const payloads = [payloadOf('text'), {}, { metadata: {}, data: Buffer.from('x') }];
  expect(await codec.decode(payloads)).toEqual(payloads);
  await codec.decode(await codec.encode(payloads));
  await codec.decode([]);
  expect(counts).toEqual([3]);
});

test('a new key encrypts as soon as the file says so, and what the old one encrypted is read', async () => {
  const codec = await codecOf();
  const [old] = await codec.encode([payloadOf('old')]);
  const other = codecOn(file);
  await other.encode([payloadOf('before')]);
  await writeFile(file, ring('two'));
  const [fresh] = await codecOn(file).encode([payloadOf('new')]);
  expect(plain(fresh!).metadata['encryption-key-id']).toBe('two');
  for (const reader of [codec, other]) {
    const decoded = await reader.decode([old!, fresh!]);
    expect(decoded.map((payload) => defaultPayloadConverter.fromPayload(payload))).toEqual(['old', 'new']);
  }
});

test('a key that is not known yet is looked for in the file at once', async () => {
  const codec = await codecOf(ring('one', { one: KEYS.one }));
  await codec.encode([payloadOf('x')]);
  const ahead = await codecOn(await otherFile(ring('two'))).encode([payloadOf('ahead')]);
  await expect(codec.decode(ahead)).rejects.toThrow(/^the payload keys file .*keys\.json has no key "two": add it/);
  await writeFile(file, ring('one'));
  expect(defaultPayloadConverter.fromPayload((await codec.decode(ahead))[0]!)).toBe('ahead');
});

async function otherFile(text: string): Promise<string> {
  const path = join(folder, 'other.json');
  await writeFile(path, text);
  return path;
}

test('while the file is broken or gone its last good content holds; without one it is refused', async () => {
  const codec = await codecOf();
  await codec.encode([payloadOf('x')]);
  for (const breakIt of [() => writeFile(file, '{"current'), () => rm(file)]) {
    await breakIt();
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    expect(await codec.encode([payloadOf('y')])).toHaveLength(1);
    await expect(codecOn(file).encode([payloadOf('y')])).rejects.toThrow(/^the payload keys file .*keys\.json /);
  }
});

test('what was changed, or encrypted with another key of the same name, is refused without a word of it', async () => {
  const codec = await codecOf();
  const [payload] = await codec.encode([payloadOf('a secret')]);
  const data = Buffer.from(payload!.data!);
  data[20]! ^= 1;
  const metadata = payload!.metadata!;
  const empty = { metadata, data: Buffer.alloc(0) };
  const stranger = await codecOn(await otherFile(ring('one', { one: KEYS.two }))).encode([payloadOf('s')]);
  const cut = [1, 4, 13, 27, 28, data.length - 1].map((length) => ({ metadata, data: data.subarray(0, length) }));
  for (const wrong of [{ metadata, data }, empty, ...cut, { metadata }, stranger[0]!])
    await expect(codec.decode([wrong])).rejects.toThrow(/^a payload was not encrypted with the key "one" of/);
});

const SECRET = randomBytes(32).toString('base64');

test.each([
  ['not JSON', `${SECRET}`, /^it is not valid JSON$/],
  ['no object', `["${SECRET}"]`, /^it should be a JSON object/],
  ['no keys', '{"current": "a"}', /^it should have a field keys/],
  ['no current key', `{"keys": {"a": "${SECRET}"}}`, /^it should have a field current/],
  ['another current key', `{"current": "b", "keys": {"a": "${SECRET}"}}`, /^it should have a field current/],
  [
    'a short key',
    `{"current": "a", "keys": {"a": "${SECRET.slice(0, 20)}"}}`,
    /32 bytes in base64: that of "a" has 15/,
  ],
  ['a key that is no text', '{"current": "a", "keys": {"a": 7}}', /32 bytes in base64: that of "a" has 0/],
  ['a wrong id', `{"current": "a b", "keys": {"a b": "${SECRET}"}}`, /^it should have key ids of 1 to 100 visible/],
])('a file with %s is refused, and no key is shown', async (_, text, problem) => {
  await writeFile(file, text);
  expect(payloadKeysProblem(file)).toMatch(problem);
  expect(payloadKeysProblem(file)).not.toContain(SECRET.slice(0, 8));
  await writeFile(file, ring('one'));
  expect(payloadKeysProblem(file)).toBeNull();
});

test('a file that is not there is named', () => {
  expect(payloadKeysProblem(join(folder, 'none'))).toBe('cannot be read (ENOENT)');
});
