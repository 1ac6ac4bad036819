import { randomBytes } from 'node:crypto';
import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { closeToOthers } from './private-folder.js';
import { identify, isAlive, type ProcessIdentity } from './process-identity.js';

/** Who uses a folder, and the processes that work on it. */
interface Claim {
  owner: ProcessIdentity;
  /** Without it the owner is about to end. */
  launcher?: ProcessIdentity | undefined;
  children: ProcessIdentity[];
}

const OWNER_ENDS_WITHIN_MS = 15_000;
const CHILD_ENDS_WITHIN_MS = 3_000;

/** A folder that belongs to this process until it ends, however it ends. */
export class DataFolder {
  readonly path: string;
  readonly #claim: Claim;

  private constructor(path: string, claim: Claim) {
    this.path = path;
    this.#claim = claim;
  }

  /**
   * Takes the first of `<name>`, `<name>-2`, `<name>-3` … that nobody uses. What a killed owner left running in it is ended
   * first, exactly those processes and no others.
   */
  static async take(parent: string, name: string, launcher?: ProcessIdentity): Promise<DataFolder> {
    const owner = self();
    for (let number = 1; ; number++) {
      const path = numbered(parent, name, number);
      mkdirSync(path, { recursive: true, mode: 0o700 });
      const claim: Claim = { owner, launcher, children: [] };
      if (await tryToClaim(path, claim)) return new DataFolder(path, claim);
    }
  }

  /**
   * Moves the folders of an earlier version, which kept them elsewhere, to where `take` looks. Tells of each, also of one
   * that is in use or can't be moved, and then stays where it is.
   */
  static async adopt(earlier: string, parent: string, name: string, tell: (what: string) => void): Promise<void> {
    if (earlier === parent) return;
    for (const entry of entriesOf(earlier).filter((found) => isOneOf(found, name))) {
      const [from, to] = [join(earlier, entry), join(parent, entry)];
      const problem = await move(from, to);
      if (problem === undefined) tell(`${from} was moved to ${to}`);
      // Else another start was faster to move it.
      else if (existsSync(from)) tell(`${from} is left as it is: ${problem}`);
    }
  }

  file(name: string): string {
    return join(this.path, name);
  }

  /** Notes a process for the next owner to end, should it outlive this one. */
  addChild(pid: number): void {
    const child = identify(pid);
    if (child === undefined) return;
    this.#claim.children = [...this.#claim.children.filter(isAlive), child];
    const draft = draftOf(this.path);
    writeFileSync(draft, JSON.stringify(this.#claim));
    renameSync(draft, claimFile(this.path));
  }

  release(): void {
    rmSync(claimFile(this.path), { force: true });
  }
}

const numbered = (parent: string, name: string, number: number) =>
  join(parent, number === 1 ? name : `${name}-${number}`);
const self = () => identify(process.pid) ?? { pid: process.pid, startedAt: '' };
const claimFile = (path: string) => join(path, 'in-use.json');
const draftOf = (path: string) => join(path, `.in-use-${randomBytes(6).toString('hex')}`);

const isOneOf = (entry: string, name: string) =>
  entry === name || (entry.startsWith(name) && /^-\d+$/.test(entry.slice(name.length)));

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return []; // there is none
  }
}

/** Moves a folder that nobody uses, under a claim of ours; else answers why it did not. */
async function move(from: string, to: string): Promise<string | undefined> {
  try {
    closeToOthers(from);
    if (!(await tryToClaim(from, { owner: self(), children: [] }))) return 'it is in use';
  } catch (error) {
    return String(error);
  }
  try {
    mkdirSync(dirname(to), { recursive: true, mode: 0o700 });
    // Of a folder that is there and holds anything this fails.
    renameSync(from, to);
    rmSync(claimFile(to));
    return undefined;
  } catch (error) {
    rmSync(claimFile(from), { force: true });
    return `it could not be moved to ${to} (${(error as NodeJS.ErrnoException).code})`;
  }
}

async function tryToClaim(path: string, claim: Claim): Promise<boolean> {
  for (;;) {
    if (writeNew(path, claim)) return true;
    const text = readClaim(path);
    if (text === undefined) continue; // released in between
    const present = parseClaim(text);
    if (present && isAlive(present.owner) && !(await endsSoon(present))) return false;
    if (!removeStale(path, text)) return false;
    await endAll(present?.children ?? []);
  }
}

/** Creates the claim's file, complete from its first moment, unless there is one. */
function writeNew(path: string, claim: Claim): boolean {
  const draft = draftOf(path);
  writeFileSync(draft, JSON.stringify(claim));
  try {
    linkSync(draft, claimFile(path));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(draft);
  }
}

function readClaim(path: string): string | undefined {
  try {
    return readFileSync(claimFile(path), 'utf8');
  } catch {
    return undefined;
  }
}

function parseClaim(text: string): Claim | undefined {
  try {
    return JSON.parse(text) as Claim;
  } catch {
    return undefined;
  }
}

/** An owner whose launcher was killed notices that and ends; its folder is worth the wait. */
async function endsSoon({ owner, launcher }: Claim): Promise<boolean> {
  if (launcher === undefined || isAlive(launcher)) return false;
  return endsWithin(owner, OWNER_ENDS_WITHIN_MS);
}

/** Moves the stale claim away; where another start was faster and the file is its claim, that one is put back. */
function removeStale(path: string, stale: string): boolean {
  const aside = draftOf(path);
  try {
    renameSync(claimFile(path), aside);
  } catch {
    return true; // gone already
  }
  const isStale = readFileSync(aside, 'utf8') === stale;
  if (!isStale) linkSync(aside, claimFile(path));
  rmSync(aside);
  return isStale;
}

async function endAll(children: ProcessIdentity[]): Promise<void> {
  for (const child of children.filter(isAlive)) {
    signal(child, 'SIGTERM');
    if (await endsWithin(child, CHILD_ENDS_WITHIN_MS)) continue;
    signal(child, 'SIGKILL');
    await endsWithin(child, CHILD_ENDS_WITHIN_MS);
  }
}

function signal(target: ProcessIdentity, name: NodeJS.Signals): void {
  try {
    if (isAlive(target)) process.kill(target.pid, name);
  } catch {
    // It ended meanwhile.
  }
}

async function endsWithin(target: ProcessIdentity, limitMs: number): Promise<boolean> {
  const deadline = Date.now() + limitMs;
  while (isAlive(target)) {
    if (Date.now() > deadline) return false;
    await delay(50);
  }
  return true;
}
