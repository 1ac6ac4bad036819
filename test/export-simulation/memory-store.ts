import type { SnapshotStore } from '../../src/exports/snapshots/snapshot-store.js';
import { SnapshotStoreError } from '../../src/exports/snapshots/snapshot-store.js';

/**
 * A store whose objects appear whole or not at all, as the real ones do, and which may be struck before or after any
 * write.
 */
export class MemoryStore implements SnapshotStore {
  readonly url = 'memory:///';
  readonly #objects = new Map<string, Buffer>();
  readonly #strike: (moment: 'before' | 'after') => void;

  constructor(strike: (moment: 'before' | 'after') => void) {
    this.#strike = strike;
  }

  urlOf(key: string): string {
    return `${this.url}${key}`;
  }

  async read(key: string): Promise<Buffer | null> {
    return this.#objects.get(key) ?? null;
  }

  async *stream(key: string): AsyncGenerator<Uint8Array> {
    const bytes = this.#objects.get(key);
    if (!bytes) throw new SnapshotStoreError('read', key, new Error('none'));
    yield bytes;
  }

  async size(key: string): Promise<number | null> {
    return this.#objects.get(key)?.length ?? null;
  }

  async put(key: string, source: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
    const pieces: Uint8Array[] = [];
    if (source instanceof Uint8Array) pieces.push(source);
    else for await (const piece of source) pieces.push(piece);
    this.#strike('before');
    this.#objects.set(key, Buffer.concat(pieces));
    this.#strike('after');
  }

  /** Changes an object as a disk or a person would: no writer is struck. */
  damage(key: string, change: (bytes: Buffer) => Buffer | null): boolean {
    const bytes = this.#objects.get(key);
    if (!bytes) return false;
    const changed = change(bytes);
    if (changed) this.#objects.set(key, changed);
    else this.#objects.delete(key);
    return true;
  }

  async *list(folder: string, from = ''): AsyncGenerator<string> {
    yield* [...this.#objects.keys()].filter((key) => key.startsWith(`${folder}/`) && key >= `${folder}/${from}`);
  }

  async remove(key: string): Promise<void> {
    this.#strike('before');
    this.#objects.delete(key);
    this.#strike('after');
  }

  async removeFolder(folder: string): Promise<void> {
    for await (const key of this.list(folder)) await this.remove(key);
  }

  async removeUnfinished(): Promise<void> {}
}
