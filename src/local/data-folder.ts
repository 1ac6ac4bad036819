/** Each `npm start` gets a data folder of its own: the first that no living process has locked. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { newLock, tryToLock, unlock, updateLock, type Lock } from './lock-file.js';
import { identify, isAlive, type ProcessIdentity } from './process-identity.js';

/** A folder that this process has locked until it ends, however it ends. */
export class DataFolder {
  readonly path: string;
  readonly #lock: Lock;

  private constructor(path: string, lock: Lock) {
    this.path = path;
    this.#lock = lock;
  }

  /** Locks the first of `<name>`, `<name>-2`, `<name>-3` … that no living process has locked. */
  static async acquire(root: string, name: string, parent?: ProcessIdentity): Promise<DataFolder> {
    const lock = newLock(parent);
    for (let number = 1; ; number++) {
      const path = join(root, number === 1 ? name : `${name}-${number}`);
      mkdirSync(path, { recursive: true, mode: 0o700 });
      if (await tryToLock(path, lock)) return new DataFolder(path, lock);
    }
  }

  file(name: string): string {
    return join(this.path, name);
  }

  /** Records a process in the lock file: the next owner ends it where it outlives this process. */
  addChild(pid: number): void {
    const child = identify(pid);
    if (child === undefined) return;
    this.#lock.children = [...this.#lock.children.filter(isAlive), child];
    updateLock(this.path, this.#lock);
  }

  release(): void {
    unlock(this.path);
  }
}
