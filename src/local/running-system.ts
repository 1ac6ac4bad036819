/** Where a running `npm start` is found, by commands that name no server and by its own next start. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Environment } from '../config.js';
import { freePort } from './child-process.js';
import { type DataFolder, isInUse } from './data-folder.js';
import { stateFoldersOfUser } from './user-folders.js';

/** What a system tells of itself, in a file of its data folder. */
interface SystemPlace {
  /** `host:port` of its Temporal. */
  address: string;
  taskQueue: string;
  webUiUrl: string;
  httpUrl: string;
  /** Absent where jobs are real. */
  sandboxUrl?: string | undefined;
}

const FILE = 'system.json';

/** Of the last start of this folder, whose ports are taken again; commands no longer find it. */
export function takeLastPlace(folder: DataFolder): Partial<SystemPlace> {
  const place = readPlace(folder.path);
  rmSync(folder.file(FILE), { force: true });
  return place ?? {};
}

/** The port of the last start's address where it is free, else the usual one. */
export async function portOfLast(address: string | undefined, usual: number): Promise<number> {
  const last = Number(/:(\d+)$/.exec(address ?? '')?.[1] ?? usual);
  return (await freePort(last)) === last ? last : usual;
}

/** Lets commands find the system while it has its folder. */
export function writePlace(folder: DataFolder, place: SystemPlace): void {
  writeFileSync(folder.file(FILE), JSON.stringify(place));
}

/** The systems of this user that run now, each with its data folder. */
export function runningSystems(env: Environment): (SystemPlace & { folder: string })[] {
  const folders = stateFoldersOfUser(env).flatMap((root) => (root === undefined ? [] : foldersIn(join(root, 'data'))));
  return folders.filter(isInUse).flatMap((folder) => {
    const place = readPlace(folder);
    return place === null ? [] : [{ ...place, folder }];
  });
}

function foldersIn(root: string): string[] {
  try {
    return readdirSync(root).map((name) => join(root, name));
  } catch {
    return [];
  }
}

function readPlace(folder: string): SystemPlace | null {
  try {
    return JSON.parse(readFileSync(join(folder, FILE), 'utf8')) as SystemPlace;
  } catch {
    return null;
  }
}
