/**
 * The keys that payloads are encrypted with: which one encrypts, and how a rotation is noticed. The file is a JSON
 * object, `{"current": "<id>", "keys": {"<id>": "<32 bytes in base64>", …}}`. Old keys stay in it for what they wrote.
 */
import { readFileSync, statSync } from 'node:fs';
import { PayloadKeysError } from '../contract/errors.js';
import { isObject } from '../contract/shared.js';

const KEY_BYTES = 32;
/** A change is noticed within this time. */
const CHECK_EVERY_MS = 1_000;

interface KeyRing {
  current: [id: string, key: Buffer];
  byId: Map<string, Buffer>;
}

/** The keys of a file, which is read again when it changes; while it is wrong, its last good content holds. */
export class PayloadKeys {
  readonly #path: string;
  #ring: KeyRing | undefined;
  #seen = '';
  #checkedAt = -Infinity;

  constructor(path: string) {
    this.#path = path;
  }

  /** The key that encrypts. */
  current(): [id: string, key: Buffer] {
    return this.#read().current;
  }

  /** The key of an id; the file is read anew where it seems to lack it. */
  byId(id: string): Buffer {
    const known = this.#read().byId.get(id);
    if (known) return known;
    this.#checkedAt = -Infinity;
    this.#seen = '';
    const added = this.#read().byId.get(id);
    if (added) return added;
    throw new PayloadKeysError(`the payload keys file ${this.#path} has no key "${id.slice(0, 100)}": add it`);
  }

  #read(): KeyRing {
    const now = performance.now();
    if (this.#ring && now - this.#checkedAt < CHECK_EVERY_MS) return this.#ring;
    this.#checkedAt = now;
    try {
      return (this.#ring = this.#readIfChanged());
    } catch (error) {
      this.#seen = '';
      if (this.#ring) return this.#ring;
      throw new PayloadKeysError(`the payload keys file ${this.#path} ${reasonOf(error)}`);
    }
  }

  #readIfChanged(): KeyRing {
    const { mtimeMs, size, ino } = statSync(this.#path);
    const seen = `${mtimeMs} ${size} ${ino}`;
    if (this.#ring && seen === this.#seen) return this.#ring;
    const ring = parseKeyRing(readFileSync(this.#path, 'utf8'));
    this.#seen = seen;
    return ring;
  }
}

/** What is wrong with a file, without a value of it; null where nothing is. */
export function payloadKeysProblem(path: string): string | null {
  try {
    parseKeyRing(readFileSync(path, 'utf8'));
    return null;
  } catch (error) {
    return reasonOf(error);
  }
}

/** The parser's own messages could quote a key. */
function reasonOf(error: unknown): string {
  if (error instanceof PayloadKeysError) return error.message;
  const { code } = error as NodeJS.ErrnoException;
  return code ? `cannot be read (${code})` : 'is not valid JSON';
}

function parseKeyRing(text: string): KeyRing {
  // It takes a byte order mark away, too.
  const given = asObject(JSON.parse(text.trim()), 'should be a JSON object with the fields current and keys');
  const keys = asObject(given['keys'], 'should have a field keys: an object of key id to key');
  const byId = new Map(Object.entries(keys).map(([id, key]) => [id, toKey(id, key)]));
  const id = given['current'];
  const key = typeof id === 'string' ? byId.get(id) : undefined;
  if (!key) throw new PayloadKeysError('should have a field current: the id of the key that encrypts');
  return { current: [id as string, key], byId };
}

function asObject(value: unknown, shouldBe: string): Record<string, unknown> {
  if (isObject(value)) return value;
  throw new PayloadKeysError(shouldBe);
}

function toKey(id: string, value: unknown): Buffer {
  if (!/^[\x21-\x7e]{1,100}$/.test(id))
    throw new PayloadKeysError('should have key ids of 1 to 100 visible characters');
  const key = typeof value === 'string' ? Buffer.from(value.trim(), 'base64') : Buffer.alloc(0);
  if (key.length === KEY_BYTES) return key;
  throw new PayloadKeysError(`should have keys of ${KEY_BYTES} bytes in base64: that of "${id}" has ${key.length}`);
}
