/**
 * Each `npm start` gets a data folder of its own: the first that no living process has locked. Its lock file says which
 * process uses the folder, and which processes it has started.
 */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Environment } from '../config.js';

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

/** Whether a living process has locked the folder. */
export function isInUse(folder: string): boolean {
  const lock = parseLock(readLockFile(folder) ?? '');
  return lock !== undefined && isAlive(lock.owner);
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

/** A process id with the start time, which tells a process from a later one with the same id. */
export interface ProcessIdentity {
  pid: number;
  /** In the system's own terms. */
  startedAt: string;
}

const POLL_INTERVAL_MS = 50;
const PARENT_POLL_INTERVAL_MS = 300;
const CHILD_ENDS_WITHIN_MS = 3_000;

/** The identity of a living process; undefined where there is none (a zombie is none). */
export function identify(pid: number): ProcessIdentity | undefined {
  const startedAt = startTimeOf(pid);
  return startedAt === undefined ? undefined : { pid, startedAt };
}

/** Whether exactly this process still lives. */
export function isAlive({ pid, startedAt }: ProcessIdentity): boolean {
  return startTimeOf(pid) === startedAt;
}

/** Whether the process ends within the limit. */
async function endsWithin(target: ProcessIdentity, limitMs: number): Promise<boolean> {
  const deadline = Date.now() + limitMs;
  while (isAlive(target)) {
    if (Date.now() > deadline) return false;
    await delay(POLL_INTERVAL_MS);
  }
  return true;
}

/** Ends those of the processes that still live, one after the other. */
async function endAll(targets: readonly ProcessIdentity[]): Promise<void> {
  for (const target of targets.filter(isAlive)) {
    kill(target, 'SIGTERM');
    if (await endsWithin(target, CHILD_ENDS_WITHIN_MS)) continue;
    kill(target, 'SIGKILL');
    await endsWithin(target, CHILD_ENDS_WITHIN_MS);
  }
}

/** npm, where it started this process. A kill of npm alone does not reach this process. */
export function findParent(env: Environment): ProcessIdentity | undefined {
  // Windows ends all processes of a console together, and the start time of a process takes too long to ask for there.
  if (!env['npm_lifecycle_event'] || process.platform === 'win32') return undefined;
  // The script `exec`s: no shell is between npm and this process.
  return identify(process.ppid);
}

/** Calls once the parent process has ended, however it ended. */
export function whenParentEnds(parent: ProcessIdentity, onEnd: () => void): void {
  const timer = setInterval(() => {
    if (isAlive(parent)) return;
    clearInterval(timer);
    onEnd();
  }, PARENT_POLL_INTERVAL_MS);
  timer.unref();
}

function kill(target: ProcessIdentity, signal: NodeJS.Signals): void {
  try {
    if (isAlive(target)) process.kill(target.pid, signal);
  } catch {
    // It ended meanwhile.
  }
}

function startTimeOf(pid: number): string | undefined {
  try {
    if (process.platform === 'linux') return readStat(pid);
    return process.platform === 'win32' ? askPowerShell(pid) : askPs(pid);
  } catch {
    return undefined;
  }
}

function readStat(pid: number): string | undefined {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The program's name, in parentheses, may itself hold spaces and parentheses.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
}

function askPs(pid: number): string | undefined {
  const ps = (field: string) => execFileSync('ps', ['-o', `${field}=`, '-p', String(pid)], { encoding: 'utf8' }).trim();
  return ps('stat').startsWith('Z') ? undefined : ps('lstart');
}

function askPowerShell(pid: number): string | undefined {
  const command = `(Get-Process -Id ${pid}).StartTime.Ticks`;
  const args = ['-NoProfile', '-NonInteractive', '-Command', command];
  const startedAt = execFileSync('powershell.exe', args, { encoding: 'utf8', windowsHide: true }).trim();
  return startedAt === '' ? undefined : startedAt;
}
