/** Snapshots in a folder of this machine. */
import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readFile, readdir, rename, rm, rmdir, stat, writeFile, type FileHandle } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { stagingKey } from './layout.js';
import { SnapshotStoreError, inStore, orNull, writeFrom, type SnapshotStore } from './snapshot-store.js';

const CREATE_TRIES = 20;

/** Snapshots in a folder: every object is written aside, synced, and renamed into its place. */
export class FileStore implements SnapshotStore {
  readonly url: string;
  readonly #root: string;

  constructor(url: string) {
    this.#root = fileURLToPath(url);
    this.url = pathToFileURL(this.#root).href.replace(/\/+$/, '');
  }

  urlOf(key: string): string {
    return pathToFileURL(this.#path(key)).href;
  }

  read(key: string): Promise<Buffer | null> {
    return inStore('read', key, () => orNull(readFile(this.#path(key)), isMissing));
  }

  async *stream(key: string): AsyncGenerator<Uint8Array> {
    try {
      yield* createReadStream(this.#path(key));
    } catch (error) {
      throw new SnapshotStoreError('read', key, error);
    }
  }

  size(key: string): Promise<number | null> {
    return inStore('read', key, async () => (await orNull(stat(this.#path(key)), isMissing))?.size ?? null);
  }

  async put(key: string, source: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
    // A name of its own: two writers of one object must not write into each other's file.
    const part = this.#path(`${stagingKey(key)}.${randomUUID()}.part`);
    try {
      await writeFrom(key, source, async (pieces) => {
        await this.#write(part, pieces);
        await this.#makeFolder(dirname(this.#path(key)));
        await rename(part, this.#path(key));
        await syncFolder(dirname(this.#path(key)));
      });
    } catch (error) {
      await rm(part, { force: true }).catch(() => {}); // the date range's next run sweeps it
      throw error;
    } finally {
      await this.#removeEmpty(dirname(part));
    }
  }

  async *list(folder: string, from = ''): AsyncGenerator<string> {
    const paths = await inStore('list', folder, () => filesBelow(this.#path(folder), from));
    yield* paths.map((path) => this.#key(path)).sort();
  }

  remove(key: string): Promise<void> {
    return inStore('remove', key, async () => {
      await rm(this.#path(key), { force: true });
      await syncFolder(dirname(this.#path(key)));
    });
  }

  removeFolder(folder: string): Promise<void> {
    return inStore('remove', folder, async () => {
      await rm(this.#path(folder), { recursive: true, force: true });
      await this.#removeEmpty(dirname(this.#path(folder)));
    });
  }

  /** Parts lie in staging, and are removed with it. */
  async removeUnfinished(): Promise<void> {}

  #path(key: string): string {
    return join(this.#root, ...key.split('/'));
  }

  #key(path: string): string {
    return relative(this.#root, path).split(sep).join('/');
  }

  async #write(path: string, source: AsyncIterable<Uint8Array>): Promise<void> {
    const file = await this.#create(path);
    try {
      await writeFile(file, source);
      await file.sync();
    } finally {
      await file.close();
    }
  }

  async #create(path: string): Promise<FileHandle> {
    for (let tries = 1; ; tries++) {
      try {
        await this.#makeFolder(dirname(path));
        return await open(path, 'w');
      } catch (error) {
        // Another writer, or another date range's sweep, may just have removed the folder while it was empty.
        if (!isMissing(error) || tries === CREATE_TRIES) throw error;
      }
    }
  }

  async #makeFolder(folder: string): Promise<void> {
    const first = await makeFolders(folder);
    if (first === undefined) return;
    for (let made = folder; made.length >= first.length; made = dirname(made)) await syncFolder(dirname(made));
  }

  /** Removes folders that became empty, from the given one up. */
  async #removeEmpty(folder: string): Promise<void> {
    for (let empty = folder; empty.startsWith(this.#root) && empty !== this.#root; empty = dirname(empty)) {
      const removed = await rmdir(empty).then(
        () => true,
        (error: unknown) => isMissing(error),
      );
      if (!removed) return;
    }
  }
}

/** Makes a folder and those above; the first one made. Node's own way says ENOENT of a disk that is read-only. */
async function makeFolders(folder: string): Promise<string | undefined> {
  try {
    await mkdir(folder);
    return folder;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return undefined;
    if (!isMissing(error)) throw error;
  }
  const above = await makeFolders(dirname(folder));
  const own = await makeFolders(folder);
  return above ?? own;
}

/** All files below a folder. If one is removed meanwhile, `readdir` with `recursive` would give up the others too. */
async function filesBelow(root: string, from: string): Promise<string[]> {
  const files: string[] = [];
  const folders = [root];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for (const entry of (await orNull(readdir(folder, { withFileTypes: true }), isMissing)) ?? []) {
      if (folder === root && entry.name < from) continue;
      const path = join(folder, entry.name);
      if (entry.isDirectory()) folders.push(path);
      // Readers of the folder read a link like a file.
      else if (entry.isFile() || entry.isSymbolicLink()) files.push(path);
    }
  }
  return files;
}

/** Makes a rename or removal in a folder outlive a power cut, if the system can open and sync folders. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r').catch(() => null);
  await handle?.sync().catch(() => {});
  await handle?.close();
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}

function isMissing(error: unknown): boolean {
  return codeOf(error) === 'ENOENT';
}
