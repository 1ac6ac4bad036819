/** Which of the user's folders keep what, and which are refused because of other users. */
import { accessSync, chmodSync, constants, lstatSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import type { Environment } from '../config.js';

const WRITABLE_BY_ALL = 0o002;
const OPEN_TO_OTHERS = 0o077;

/** Another user owns the folder, or may have put something into it. */
class ForeignFolderError extends Error {
  override readonly name = 'ForeignFolderError';
}

/** The private folder for what can be fetched again; a temporary one where there is no usable home. */
export function cacheFolder(env: Environment): string {
  const ofUser = [absolute(env['XDG_CACHE_HOME']), absolute(env['HOME'], '.cache'), absolute(env['LOCALAPPDATA'])];
  return firstUsable([...ofUser, temporaryFolder()], 'XDG_CACHE_HOME');
}

/**
 * The private folder for what can't be fetched again. Without a usable home the demo's state goes into a temporary one,
 * and real jobs are refused.
 */
export function stateFolder(env: Environment, isReal: boolean): string {
  const ofUser = stateFoldersOfUser(env);
  return firstUsable(isReal ? ofUser : [...ofUser, temporaryFolder()], 'XDG_STATE_HOME');
}

/** Where the state of this user may be, none of them temporary. */
export function stateFoldersOfUser(env: Environment): (string | undefined)[] {
  return [absolute(env['XDG_STATE_HOME']), platformStateFolder(env)];
}

/** Makes the folder private, where need be anew; throws a ForeignFolderError where another user may have filled it. */
export function makePrivateFolder(folder: string): string {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const found = lstatSync(folder);
  if (!found.isDirectory()) throw new ForeignFolderError(`${folder} is not a folder, but a link or a file`);
  // Windows has no such owner and mode; its folders of a user are closed to the others.
  const user = process.getuid?.();
  if (user === undefined) return folder;
  if (found.uid !== user) {
    throw new ForeignFolderError(`${folder} belongs to user id ${found.uid}, and this process runs as ${user}`);
  }
  if ((found.mode & WRITABLE_BY_ALL) !== 0) throw new ForeignFolderError(`${folder} can be written by every user`);
  if ((found.mode & OPEN_TO_OTHERS) !== 0) chmodSync(folder, 0o700);
  return folder;
}

function platformStateFolder(env: Environment): string | undefined {
  if (process.platform === 'win32') return absolute(env['LOCALAPPDATA']);
  if (process.platform === 'darwin') return absolute(env['HOME'], 'Library', 'Application Support');
  return absolute(env['HOME'], '.local', 'state');
}

/** Our folder under a path of the environment; undefined where that is unset or relative. */
function absolute(root: string | undefined, ...names: string[]): string | undefined {
  return root !== undefined && isAbsolute(root) ? join(root, ...names, 'agent-jobs') : undefined;
}

/** A folder that the next start of the same user finds again, until the machine is cleaned. */
function temporaryFolder(): string {
  // The user's id keeps two users of one machine apart.
  return join(tmpdir(), `agent-jobs-${process.getuid?.() ?? 'user'}`);
}

/** The first folder that can be made and written. Throws where one is another user's, and where there is none. */
function firstUsable(folders: readonly (string | undefined)[], variable: string): string {
  const usable = folders.find((folder) => folder !== undefined && isUsable(folder, variable));
  if (usable !== undefined) return usable;
  throw new Error(
    'No folder of this user can be written that would keep its content, such as one in a home folder. ' +
      `Set ${variable} to the path of a folder on a local disk.`,
  );
}

function isUsable(folder: string, variable: string): boolean {
  try {
    accessSync(makePrivateFolder(folder), constants.W_OK);
    return true;
  } catch (error) {
    if (!(error instanceof ForeignFolderError)) return false;
    const remedy = `Set ${variable} to the path of a folder of your own, or remove this one`;
    throw new ForeignFolderError(`${error.message}. Nothing in it is trusted. ${remedy}.`);
  }
}
