/**
 * The folders of this user, and the data folder of a running `npm start`: a second start ends with the address of
 * the first. A port that follows from the folder's path is its lock, for the kernel frees it however a process ends.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdirSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Environment } from '../config.js';

interface SystemAddress {
  /** `host:port` of its Temporal. */
  address: string;
  serverPid: number;
  taskQueue: string;
  webUiUrl: string;
}

const HOST = '127.0.0.1';
/** Below the ports that `freePort` and outgoing connections take. */
const MIN_LOCK_PORT = 10_000;
const LOCK_PORTS = 10_000;
/** The server of a killed start ends by itself, see child-process.ts. */
const ORPHAN_ENDS_WITHIN_MS = 15_000;
const CONNECTS_WITHIN_MS = 5_000;

/** The user's folder for what can be fetched again (`CACHE`), or for what can't (`STATE`). */
export function userFolder(env: Environment, kind: 'CACHE' | 'STATE', readHome = homedir): string {
  const set = env[`XDG_${kind}_HOME`];
  const usual = join(env['HOME'] || homeOf(readHome), kind === 'CACHE' ? '.cache' : join('.local', 'state'));
  return join(set && isAbsolute(set) ? set : usual, 'agent-jobs');
}

/** A container may run under a user id that has no entry. It has no systems; a folder of all users' could name some. */
function homeOf(readHome: () => string): string {
  try {
    return readHome();
  } catch {
    return '/nonexistent';
  }
}

/** Makes a folder, closed to other users; throws if it is another user's. */
export function makePrivate(folder: string): void {
  mkdirSync(folder, { recursive: true });
  chmodSync(folder, 0o700);
}

/** The data folder of the demo, or of real jobs. */
export function dataFolder(env: Environment, name: 'default' | 'real'): string {
  return join(userFolder(env, 'STATE'), 'data', name);
}

/** A folder that this process has until it ends. */
export class DataFolder {
  readonly path: string;
  readonly #lock: Server;

  private constructor(path: string, lock: Server) {
    this.path = path;
    this.#lock = lock;
  }

  /** Takes the folder; throws with the address of the system that has it. */
  static async take(path: string): Promise<DataFolder> {
    makePrivate(path);
    const lock = createServer((socket) => socket.on('error', () => {}).end());
    const port = lockPortOf(path);
    await once(lock.listen({ port, host: HOST, exclusive: true }), 'listening').catch(
      (error: NodeJS.ErrnoException) => {
        if (error.code !== 'EADDRINUSE') throw error;
        const { address } = readAddress(path) ?? {};
        const serves = address === undefined ? '' : `, and serves Temporal at ${address}`;
        throw new Error(
          `npm start already runs${serves} (${path}). Use it, or stop it first. ` +
            `If it does not run, another program has port ${port}: end that, or set XDG_STATE_HOME to another folder.`,
        );
      },
    );
    lock.unref();
    const folder = new DataFolder(path, lock);
    try {
      const killed = readAddress(path);
      if (killed !== null) await untilServerEnded(killed, path);
      // Until this start has a server, commands find none.
      rmSync(systemFile(path), { force: true });
    } catch (error) {
      lock.close();
      throw error;
    }
    return folder;
  }

  file(name: string): string {
    return join(this.path, name);
  }

  /** Lets commands and a second start find the system. */
  publish(address: SystemAddress): void {
    const draft = this.file('.system.json');
    writeFileSync(draft, JSON.stringify(address));
    renameSync(draft, systemFile(this.path));
    rmSync(this.file(TOLD), { force: true });
  }

  release(): void {
    rmSync(systemFile(this.path), { force: true });
    this.#lock.close();
  }
}

const TOLD = 'told';

/** Whether no command has told a person of the system in a folder yet; from now on one has. */
export function isToldFirst(folder: string): boolean {
  try {
    writeFileSync(join(folder, TOLD), '', { flag: 'wx' });
    return true;
  } catch {
    return false;
  }
}

function systemFile(folder: string): string {
  return join(folder, 'system.json');
}

/** One folder has one port, by whatever path it is reached. */
function lockPortOf(folder: string): number {
  const path = realpathSync.native(folder);
  return MIN_LOCK_PORT + (createHash('sha256').update(path).digest().readUInt32BE() % LOCK_PORTS);
}

/** The address of the system that runs in a folder, or did until it was killed; null if none can be read. */
function readAddress(folder: string): SystemAddress | null {
  try {
    const system = JSON.parse(readFileSync(systemFile(folder), 'utf8')) as SystemAddress;
    return typeof system.address === 'string' ? system : null;
  } catch {
    return null;
  }
}

/** Waits for the Temporal server of a killed start: two servers must not share a database. */
async function untilServerEnded({ serverPid, address }: SystemAddress, folder: string): Promise<void> {
  const port = Number(address.split(':').at(-1));
  for (const deadline = Date.now() + ORPHAN_ENDS_WITHIN_MS; lives(serverPid) && (await isListening(port));) {
    if (Date.now() > deadline) throw new Error(`Temporal's dev server (process ${serverPid}) still uses ${folder}`);
    await delay(100);
  }
}

function lives(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, HOST);
    const answer = (isTaken: boolean) => {
      socket.destroy();
      resolve(isTaken);
    };
    socket.on('connect', () => answer(true)).on('error', () => answer(false));
    // A suspended process has a full queue of connections at some time.
    socket.setTimeout(CONNECTS_WITHIN_MS, () => answer(true));
  });
}

/** The systems of this user that run now, each with its data folder. */
export async function runningSystems(env: Environment): Promise<(SystemAddress & { folder: string })[]> {
  const found = [];
  for (const folder of [dataFolder(env, 'default'), dataFolder(env, 'real')]) {
    const system = readAddress(folder);
    if (system !== null && (await isListening(lockPortOf(folder)))) found.push({ ...system, folder });
  }
  return found;
}
