/**
 * Each `npm start` gets a data folder of its own: the first that no living process has locked. Its lock file says which
 * process uses the folder, and which processes it has started.
 */
import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { endAll, endsWithin, identify, isAlive, type ProcessIdentity } from './process-identity.js';

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
    const owner = identify(process.pid) ?? { pid: process.pid, startedAt: '' };
    const lock: Lock = { owner, parent, children: [] };
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
    const draft = draftIn(this.path);
    writeFileSync(draft, JSON.stringify(this.#lock));
    renameSync(draft, lockFileIn(this.path));
  }

  release(): void {
    rmSync(lockFileIn(this.path), { force: true });
  }
}

/** What a lock file holds: who uses the folder, and the processes that work on it. */
interface Lock {
  owner: ProcessIdentity;
  /** The process that started the owner. Once this parent has ended, the owner ends soon, too. */
  parent?: ProcessIdentity | undefined;
  children: ProcessIdentity[];
}

const OWNER_ENDS_WITHIN_MS = 15_000;

/**
 * Locks a folder; false where a living process has locked it. A lock whose owner has ended is stale: it is removed, and
 * the children that the owner left running are ended.
 */
async function tryToLock(folder: string, lock: Lock): Promise<boolean> {
  for (;;) {
    if (createLockFile(folder, lock)) return true;
    const text = readLockFile(folder);
    if (text === undefined) continue; // unlocked in between
    const present = parseLock(text);
    if (present && isAlive(present.owner) && !(await endsSoon(present))) return false;
    if (!removeStale(folder, text)) return false;
    await endAll(present?.children ?? []);
  }
}

const lockFileIn = (folder: string) => join(folder, 'in-use.json');
const draftIn = (folder: string) => join(folder, `.in-use-${randomBytes(6).toString('hex')}`);

/** Creates the lock file unless there is one. A link makes it appear with all of its contents. */
function createLockFile(folder: string, lock: Lock): boolean {
  const draft = draftIn(folder);
  writeFileSync(draft, JSON.stringify(lock));
  try {
    linkSync(draft, lockFileIn(folder));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(draft);
  }
}

function readLockFile(folder: string): string | undefined {
  try {
    return readFileSync(lockFileIn(folder), 'utf8');
  } catch {
    return undefined;
  }
}

function parseLock(text: string): Lock | undefined {
  try {
    return JSON.parse(text) as Lock;
  } catch {
    return undefined;
  }
}

/** Waits for an owner whose parent process was killed: it notices that and ends. */
async function endsSoon({ owner, parent }: Lock): Promise<boolean> {
  if (parent === undefined || isAlive(parent)) return false;
  return endsWithin(owner, OWNER_ENDS_WITHIN_MS);
}

/** Moves the stale lock file away; puts it back where it turns out to be the new one of another start. */
function removeStale(folder: string, stale: string): boolean {
  const aside = draftIn(folder);
  try {
    renameSync(lockFileIn(folder), aside);
  } catch {
    return true; // gone already
  }
  const isStale = readFileSync(aside, 'utf8') === stale;
  if (!isStale) linkSync(aside, lockFileIn(folder));
  rmSync(aside);
  return isStale;
}
