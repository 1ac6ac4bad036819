import { accessSync, constants } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import type { Environment } from '../config.js';
import { ForeignFolderError, makePrivateFolder } from './private-folder.js';

/** The folder for what may be fetched or made again, this user's alone; a temporary one where there is no usable home. */
export function cacheFolder(env: Environment): string {
  const candidates = [absolute(env['XDG_CACHE_HOME']), absolute(env['HOME'], '.cache'), absolute(env['LOCALAPPDATA'])];
  return firstUsable(candidates, 'XDG_CACHE_HOME') ?? temporaryFolder('XDG_CACHE_HOME');
}

/** The path under an absolute one of the environment; undefined where that is unset or relative. */
export function absolute(parent: string | undefined, ...names: string[]): string | undefined {
  return parent !== undefined && isAbsolute(parent) ? join(parent, ...names, 'agent-jobs') : undefined;
}

/** The first folder that can be made and written; throws where one is another user's, for what lies there is not to be trusted. */
export function firstUsable(candidates: readonly (string | undefined)[], variable: string): string | undefined {
  return candidates.find((folder) => folder !== undefined && isUsable(folder, variable));
}

/** A folder that the next start of the same user finds again, until the machine is cleaned. */
export function temporaryFolder(variable: string): string {
  // The user's id keeps two users of one machine apart.
  const folder = join(tmpdir(), `agent-jobs-${process.getuid?.() ?? 'user'}`);
  return naming(variable, () => makePrivateFolder(folder));
}

function isUsable(folder: string, variable: string): boolean {
  try {
    naming(variable, () => makePrivateFolder(folder));
    accessSync(folder, constants.W_OK);
    return true;
  } catch (error) {
    if (error instanceof ForeignFolderError) throw error;
    return false;
  }
}

/** Adds the way out to the refusal. */
function naming<T>(variable: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof ForeignFolderError)) throw error;
    const remedy = `Set ${variable} to the path of a folder of your own, or remove this one`;
    throw new ForeignFolderError(`${error.message}. Nothing in it is trusted. ${remedy}.`);
  }
}
