/**
 * The data folder of a running `npm start`: a second start is refused with the address of the first. A file says who
 * has the folder. It counts while its process answers on the port that it names.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Environment } from '../config.js';
import { stateFolders } from './user-folders.js';

/** The address of a running system. */
interface Place {
  /** `host:port` of its Temporal. */
  address: string;
  serverPid: number;
  taskQueue: string;
  webUiUrl: string;
}

/** What the file holds; the place once the server runs. */
interface Claim extends Partial<Place> {
  pid: number;
  /** A listener of this port of the loopback address answers with the token. */
  port: number;
  token: string;
}

/** The folder's names: of the demo, and of real jobs. */
export const DATA_FOLDERS = { demo: 'default', real: 'real' };
const FILE = 'system.json';
const HOST = '127.0.0.1';
const ANSWERS_WITHIN_MS = 2_000;
/** Other starts may be faster, but not so often. */
const MAX_TRIES = 100;
/** The server of a start that was killed ends by itself, see child-process.ts. */
const ORPHAN_ENDS_WITHIN_MS = 15_000;

/** A folder that this process has until it ends, however it ends. */
export class DataFolder {
  readonly path: string;
  readonly #guard: Server;
  #claim: Claim;

  private constructor(path: string, guard: Server, claim: Claim) {
    this.path = path;
    this.#guard = guard;
    this.#claim = claim;
  }

  /** Takes the folder; throws with the address of the system that has it. */
  static async take(path: string): Promise<DataFolder> {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    const token = randomBytes(12).toString('hex');
    const guard = createServer((socket) => socket.on('error', () => {}).end(token)).listen(0, HOST);
    await once(guard, 'listening');
    guard.unref();
    const { port } = guard.address() as AddressInfo;
    const folder = new DataFolder(path, guard, { pid: process.pid, port, token });
    try {
      for (let tries = 1; !folder.#isTaken(); tries++) {
        if (tries > MAX_TRIES) throw new Error(`${folder.file(FILE)} can't be read: remove it`);
        await folder.#removeStale();
      }
    } catch (error) {
      guard.close();
      throw error;
    }
    return folder;
  }

  file(name: string): string {
    return join(this.path, name);
  }

  /** Lets commands and a second start find the system. */
  tellPlace(place: Place): void {
    this.#claim = { ...this.#claim, ...place };
    renameSync(this.#draft(), this.file(FILE));
  }

  release(): void {
    rmSync(this.file(FILE), { force: true });
    this.#guard.close();
  }

  #draft(): string {
    const draft = this.file(`.${this.#claim.token}`);
    writeFileSync(draft, JSON.stringify(this.#claim));
    return draft;
  }

  /** Creates the file unless there is one. A link makes it appear with all of its contents. */
  #isTaken(): boolean {
    const draft = this.#draft();
    try {
      linkSync(draft, this.file(FILE));
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
      throw error;
    } finally {
      rmSync(draft);
    }
  }

  /** Moves the file of a killed start away; puts it back if it turns out to be the new one of another start. */
  async #removeStale(): Promise<void> {
    const [text, other] = readClaim(this.path);
    if (text === undefined) return;
    if (other && (await isRunning(other))) {
      const where = other.address === undefined ? 'is starting' : `runs, and serves Temporal at ${other.address}`;
      throw new Error(`npm start already ${where} (process ${other.pid}, ${this.path}). Use it, or stop it first.`);
    }
    if (other) await untilServerEnded(other, this.path);
    const aside = this.file(`.stale-${this.#claim.token}`);
    try {
      renameSync(this.file(FILE), aside);
    } catch {
      return; // another start was faster
    }
    if (readFileSync(aside, 'utf8') !== text) linkSync(aside, this.file(FILE));
    rmSync(aside);
  }
}

function readClaim(folder: string): [text?: string, claim?: Claim] {
  try {
    const text = readFileSync(join(folder, FILE), 'utf8');
    try {
      const claim = JSON.parse(text) as Claim;
      return Number.isInteger(claim.port) ? [text, claim] : [text];
    } catch {
      return [text];
    }
  } catch {
    return [];
  }
}

/** Whether the process of the claim lives; a suspended one does not answer, and lives. */
function isRunning({ pid, port, token }: Claim): Promise<boolean> {
  return new Promise((resolve) => {
    let said = '';
    const socket = connect(port, HOST).setTimeout(ANSWERS_WITHIN_MS).setEncoding('utf8');
    socket.on('error', () => resolve(false));
    socket.on('data', (text: string) => {
      said += text;
      if (!String(token).startsWith(said)) socket.destroy(); // it may talk without end
    });
    socket.on('timeout', () => resolve(lives(pid))).on('timeout', () => socket.destroy());
    socket.on('close', () => resolve(said === token));
  });
}

function lives(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Waits for the Temporal server of a start that was killed: two servers must not share a database. */
async function untilServerEnded({ serverPid, address }: Claim, folder: string): Promise<void> {
  if (serverPid === undefined || address === undefined) return;
  const port = Number(address.split(':').at(-1));
  for (const deadline = Date.now() + ORPHAN_ENDS_WITHIN_MS; lives(serverPid) && (await isListening(port));) {
    if (Date.now() > deadline) throw new Error(`Temporal's dev server (process ${serverPid}) still uses ${folder}`);
    await delay(100);
  }
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, HOST, () => resolve(true)).on('error', () => resolve(false));
    socket.on('connect', () => socket.destroy());
  });
}

/** The systems of this user that run now, each with its data folder. */
export async function runningSystems(env: Environment): Promise<(Place & { folder: string })[]> {
  const roots = stateFolders(env).filter((root) => root !== undefined);
  const folders = roots.flatMap((root) => Object.values(DATA_FOLDERS).map((name) => join(root, 'data', name)));
  const found = await Promise.all(
    folders.map(async (folder) => {
      const [, claim] = readClaim(folder);
      return claim?.address && (await isRunning(claim)) ? [{ ...(claim as Claim & Place), folder }] : [];
    }),
  );
  return found.flat();
}
