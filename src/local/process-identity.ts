import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Environment } from '../config.js';

/** A process id with the start time, which tells a process from a later one with the same id. */
export interface ProcessIdentity {
  pid: number;
  /** In the system's own terms. */
  startedAt: string;
}

const POLL_INTERVAL_MS = 50;
const PARENT_POLL_INTERVAL_MS = 300;
const CHILD_ENDS_WITHIN_MS = 3_000;

/** The identity of a living process; undefined where there is none (a zombie is none). */
export function identify(pid: number): ProcessIdentity | undefined {
  const startedAt = startTimeOf(pid);
  return startedAt === undefined ? undefined : { pid, startedAt };
}

/** Whether exactly this process still lives. */
export function isAlive({ pid, startedAt }: ProcessIdentity): boolean {
  return startTimeOf(pid) === startedAt;
}

/** Whether the process ends within the limit. */
export async function endsWithin(target: ProcessIdentity, limitMs: number): Promise<boolean> {
  const deadline = Date.now() + limitMs;
  while (isAlive(target)) {
    if (Date.now() > deadline) return false;
    await delay(POLL_INTERVAL_MS);
  }
  return true;
}

/** Ends those of the processes that still live, one after the other. */
export async function endAll(targets: readonly ProcessIdentity[]): Promise<void> {
  for (const target of targets.filter(isAlive)) {
    kill(target, 'SIGTERM');
    if (await endsWithin(target, CHILD_ENDS_WITHIN_MS)) continue;
    kill(target, 'SIGKILL');
    await endsWithin(target, CHILD_ENDS_WITHIN_MS);
  }
}

/** npm, where it started this process. A kill of npm alone does not reach this process. */
export function findParent(env: Environment): ProcessIdentity | undefined {
  // Windows ends all processes of a console together, and the start time of a process takes too long to ask for there.
  if (!env['npm_lifecycle_event'] || process.platform === 'win32') return undefined;
  // The script `exec`s: no shell is between npm and this process.
  return identify(process.ppid);
}

/** Calls once the parent process has ended, however it ended. */
export function whenParentEnds(parent: ProcessIdentity, onEnd: () => void): void {
  const timer = setInterval(() => {
    if (isAlive(parent)) return;
    clearInterval(timer);
    onEnd();
  }, PARENT_POLL_INTERVAL_MS);
  timer.unref();
}

function kill(target: ProcessIdentity, signal: NodeJS.Signals): void {
  try {
    if (isAlive(target)) process.kill(target.pid, signal);
  } catch {
    // It ended meanwhile.
  }
}

function startTimeOf(pid: number): string | undefined {
  try {
    if (process.platform === 'linux') return readStat(pid);
    return process.platform === 'win32' ? askPowerShell(pid) : askPs(pid);
  } catch {
    return undefined;
  }
}

function readStat(pid: number): string | undefined {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The program's name, in parentheses, may itself hold spaces and parentheses.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
}

function askPs(pid: number): string | undefined {
  const ps = (field: string) => execFileSync('ps', ['-o', `${field}=`, '-p', String(pid)], { encoding: 'utf8' }).trim();
  return ps('stat').startsWith('Z') ? undefined : ps('lstart');
}

function askPowerShell(pid: number): string | undefined {
  const command = `(Get-Process -Id ${pid}).StartTime.Ticks`;
  const args = ['-NoProfile', '-NonInteractive', '-Command', command];
  const startedAt = execFileSync('powershell.exe', args, { encoding: 'utf8', windowsHide: true }).trim();
  return startedAt === '' ? undefined : startedAt;
}
