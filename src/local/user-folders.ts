/** The user's own folders of `npm start`: for what can be fetched again, and for what can't. */
import { accessSync, chmodSync, constants, mkdirSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import type { Environment } from '../config.js';

/** The private folder for what can be fetched again. */
export function cacheFolder(env: Environment): string {
  const roots = [absolute(env['XDG_CACHE_HOME']), absolute(env['HOME'], '.cache'), absolute(env['LOCALAPPDATA'])];
  return firstUsable(roots, 'XDG_CACHE_HOME');
}

/** The private folder for what can't be fetched again. */
export function stateFolder(env: Environment): string {
  return firstUsable(stateFolders(env), 'XDG_STATE_HOME');
}

/** The folders in which the state of this user may be. */
export function stateFolders(env: Environment): (string | undefined)[] {
  const ofPlatform: Partial<Record<NodeJS.Platform, string | undefined>> = {
    win32: absolute(env['LOCALAPPDATA']),
    darwin: absolute(env['HOME'], 'Library', 'Application Support'),
  };
  const usual = absolute(env['HOME'], '.local', 'state');
  return [absolute(env['XDG_STATE_HOME']), process.platform in ofPlatform ? ofPlatform[process.platform] : usual];
}

/** Our folder under a path of the environment; undefined if that is unset or relative. */
function absolute(root: string | undefined, ...names: string[]): string | undefined {
  return root !== undefined && isAbsolute(root) ? join(root, ...names, 'agent-jobs') : undefined;
}

/** The first folder that can be made, closed to other users and written. */
function firstUsable(folders: readonly (string | undefined)[], variable: string): string {
  for (const folder of folders) {
    try {
      if (folder === undefined) continue;
      mkdirSync(folder, { recursive: true });
      // Fails if the folder is another user's.
      chmodSync(folder, 0o700);
      accessSync(folder, constants.W_OK);
      return folder;
    } catch {
      // The next folder may be usable.
    }
  }
  const tried = folders.filter((folder) => folder !== undefined).join(', ') || 'nothing';
  throw new Error(`No folder of this user can be written (tried ${tried}). Set ${variable} to one on a local disk.`);
}
