/**
 * The keys that payloads are encrypted with: which one encrypts, and how a rotation is noticed. The file is a JSON
 * object, `{"current": "<id>", "keys": {"<id>": "<32 bytes in base64>", …}}`. Old keys stay in it for what they wrote.
 */
import { PayloadKeysError } from '../contract/errors.js';
import { isObject } from '../contract/shared.js';
import { fileProblem, parseJson, SettingsFile } from './settings-file.js';

const KEY_BYTES = 32;

interface KeysOfFile {
  current: [id: string, key: Buffer];
  byId: Map<string, Buffer>;
}

/** The keys of a file, which is read again when it changes; while it is wrong, its last good content holds. */
export class PayloadKeys {
  readonly #path: string;
  readonly #file: SettingsFile<KeysOfFile>;

  constructor(path: string) {
    this.#path = path;
    this.#file = new SettingsFile({ name: 'the payload keys file', path, parse: parseKeyRing });
  }

  async current(): Promise<[id: string, key: Buffer]> {
    return (await this.#read()).current;
  }

  /** The key of an id; the file is read anew if it seems to lack it. */
  async byId(id: string): Promise<Buffer> {
    const known = (await this.#read()).byId.get(id);
    if (known) return known;
    this.#file.forget();
    const added = (await this.#read()).byId.get(id);
    if (added) return added;
    throw new PayloadKeysError(`the payload keys file ${this.#path} has no key "${id.slice(0, 100)}": add it`);
  }

  async #read(): Promise<KeysOfFile> {
    try {
      return await this.#file.read();
    } catch (error) {
      throw new PayloadKeysError((error as Error).message);
    }
  }
}

/** What is wrong with a file, without a value of it; null if nothing is. */
export function payloadKeysProblem(path: string): string | null {
  return fileProblem(path, parseKeyRing);
}

// By hand: a service that encrypts does not install zod.
function parseKeyRing(text: string): KeysOfFile {
  const given = asObject(parseJson(text), 'it should be a JSON object with the fields current and keys');
  const keys = asObject(given['keys'], 'it should have a field keys: an object of key id to key');
  const byId = new Map(Object.entries(keys).map(([id, key]) => [id, toKey(id, key)]));
  const id = given['current'];
  const key = typeof id === 'string' ? byId.get(id) : undefined;
  if (!key) throw new Error('it should have a field current: the id of the key that encrypts');
  return { current: [id as string, key], byId };
}

function asObject(value: unknown, shouldBe: string): Record<string, unknown> {
  if (isObject(value)) return value;
  throw new Error(shouldBe);
}

function toKey(id: string, value: unknown): Buffer {
  if (!/^[\x21-\x7e]{1,100}$/.test(id)) throw new Error('it should have key ids of 1 to 100 visible characters');
  const key = typeof value === 'string' ? Buffer.from(value.trim(), 'base64') : Buffer.alloc(0);
  if (key.length === KEY_BYTES) return key;
  throw new Error(`it should have keys of ${KEY_BYTES} bytes in base64: that of "${id}" has ${key.length}`);
}
