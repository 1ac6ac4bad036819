/** Each `npm start` gets a data folder of its own: the first that no living process has locked. */
import { existsSync, mkdirSync, readdirSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { newLock, tryToLock, unlock, updateLock, type Lock } from './lock-file.js';
import { identify, isAlive, type ProcessIdentity } from './process-identity.js';
import { closeToOthers } from './user-folders.js';

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

  /**
   * Moves the folders of an earlier version, which kept them elsewhere, to where `acquire` looks. Reports each of them;
   * one that is in use or can't be moved stays where it is.
   */
  static async migrate(earlier: string, root: string, name: string, onFolder: (what: string) => void): Promise<void> {
    if (earlier === root) return;
    for (const entry of entriesOf(earlier).filter((found) => isOneOf(found, name))) {
      const [from, to] = [join(earlier, entry), join(root, entry)];
      const problem = await move(from, to);
      if (problem === undefined) onFolder(`${from} was moved to ${to}`);
      // Else another start was faster to move it.
      else if (existsSync(from)) onFolder(`${from} is left as it is: ${problem}`);
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

const isOneOf = (entry: string, name: string) =>
  entry === name || (entry.startsWith(name) && /^-\d+$/.test(entry.slice(name.length)));

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return []; // there is none
  }
}

/** Locks a folder and moves it; answers why it did not. */
async function move(from: string, to: string): Promise<string | undefined> {
  try {
    closeToOthers(from);
    if (!(await tryToLock(from, newLock()))) return 'it is in use';
  } catch (error) {
    return String(error);
  }
  try {
    mkdirSync(dirname(to), { recursive: true, mode: 0o700 });
    // Fails where the target exists and holds anything.
    renameSync(from, to);
    unlock(to);
    return undefined;
  } catch (error) {
    unlock(from);
    return `it could not be moved to ${to} (${(error as NodeJS.ErrnoException).code})`;
  }
}
