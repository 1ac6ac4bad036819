import { accessSync, constants, mkdirSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { isAbsolute, join } from 'node:path';
import type { Environment } from '../config.js';

/** The folder for what may be fetched or made again, created where missing; a temporary one where the user has no usable home. */
export function cacheFolder(env: Environment): string {
  const candidates = [
    isAbsolute(env['XDG_CACHE_HOME'] ?? '') ? env['XDG_CACHE_HOME'] : undefined,
    isAbsolute(env['HOME'] ?? '') ? join(env['HOME'] as string, '.cache') : undefined,
    isAbsolute(env['LOCALAPPDATA'] ?? '') ? env['LOCALAPPDATA'] : undefined,
  ];
  for (const candidate of candidates) {
    if (candidate === undefined) continue;
    const folder = join(candidate, 'agent-jobs');
    if (isUsable(folder)) return folder;
  }
  // The user's name keeps two users of one machine apart.
  const folder = join(tmpdir(), `agent-jobs-${userInfo().uid}`);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return folder;
}

function isUsable(folder: string): boolean {
  try {
    mkdirSync(folder, { recursive: true });
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
