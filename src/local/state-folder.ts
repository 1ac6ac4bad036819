import { join } from 'node:path';
import type { Environment } from '../config.js';
import { absolute, firstUsable, temporaryFolder } from './cache-folder.js';

/** There is no folder that would keep real jobs. */
export class NoStateFolderError extends Error {
  override readonly name = 'NoStateFolderError';
}

/**
 * The folder for what can't be made again, this user's alone. Where there is no usable home the demo's state goes into a
 * temporary one; real jobs are refused.
 */
export function stateFolder(env: Environment, isReal: boolean): string {
  const found = firstUsable([absolute(env['XDG_STATE_HOME']), ofPlatform(env)], 'XDG_STATE_HOME');
  if (found !== undefined) return found;
  if (!isReal) return temporaryFolder('XDG_STATE_HOME');
  throw new NoStateFolderError(
    'No folder would keep the state of real jobs: there is no home folder that can be written. ' +
      'Set XDG_STATE_HOME to the path of a folder on a local disk.',
  );
}

/** Where versions before 0.2 kept their data: in the cache folder. */
export function earlierDataFolders(env: Environment): string[] {
  const caches = [absolute(env['XDG_CACHE_HOME']), absolute(env['HOME'], '.cache'), absolute(env['LOCALAPPDATA'])];
  return caches.filter((folder) => folder !== undefined).map((folder) => join(folder, 'data'));
}

function ofPlatform(env: Environment): string | undefined {
  if (process.platform === 'win32') return absolute(env['LOCALAPPDATA']);
  if (process.platform === 'darwin') return absolute(env['HOME'], 'Library', 'Application Support');
  return absolute(env['HOME'], '.local', 'state');
}
