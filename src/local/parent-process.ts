import type { Environment } from '../config.js';
import { identify, isAlive, lookUp, type ProcessIdentity } from './process-identity.js';

const LOOK_EVERY_MS = 300;
const SHELL = /(^|\/)-?(sh|ash|dash|bash|ksh|zsh|fish)$/;

/** npm itself, where it started this process: a kill of npm reaches neither the shell between them nor us. */
export function findLauncher(env: Environment): ProcessIdentity | undefined {
  // Windows ends a whole console at once, and asking for a process there takes too long to be done all the time.
  if (!env['npm_lifecycle_event'] || process.platform === 'win32') return undefined;
  const parent = lookUp(process.ppid);
  return identify(parent && SHELL.test(parent.name) ? parent.parent : process.ppid);
}

/** Calls once the launcher has ended, however it ended. */
export function whenLauncherEnds(launcher: ProcessIdentity, ended: () => void): void {
  const timer = setInterval(() => {
    if (isAlive(launcher)) return;
    clearInterval(timer);
    ended();
  }, LOOK_EVERY_MS);
  timer.unref();
}
