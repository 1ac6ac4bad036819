import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** A process, named so that another one with the same id, later, is not taken for it. */
export interface ProcessIdentity {
  pid: number;
  /** When it started, in the system's own terms. */
  startedAt: string;
}

interface ProcessRecord {
  name: string;
  parent: number;
  startedAt: string;
}

/** Names a living process for good; undefined where there is none (a zombie is none). */
export function identify(pid: number): ProcessIdentity | undefined {
  const record = lookUp(pid);
  return record && { pid, startedAt: record.startedAt };
}

/** Whether exactly this process still lives. */
export function isAlive({ pid, startedAt }: ProcessIdentity): boolean {
  return lookUp(pid)?.startedAt === startedAt;
}

/** The name and the parent of a living process. */
export function lookUp(pid: number): ProcessRecord | undefined {
  try {
    if (process.platform === 'linux') return readStat(pid);
    return process.platform === 'win32' ? askPowerShell(pid) : askPs(pid);
  } catch {
    return undefined;
  }
}

function readStat(pid: number): ProcessRecord | undefined {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The name may itself hold spaces and parentheses.
  const end = stat.lastIndexOf(')');
  const [state, parent, ...rest] = stat.slice(end + 2).split(' ');
  const name = stat.slice(stat.indexOf('(') + 1, end);
  const startedAt = rest[17];
  return state === 'Z' || state === 'X' || !startedAt ? undefined : { name, parent: Number(parent), startedAt };
}

function askPs(pid: number): ProcessRecord | undefined {
  const ps = (field: string) => execFileSync('ps', ['-o', `${field}=`, '-p', String(pid)], { encoding: 'utf8' }).trim();
  if (ps('stat').startsWith('Z')) return undefined;
  return { name: ps('comm'), parent: Number(ps('ppid')), startedAt: ps('lstart') };
}

function askPowerShell(pid: number): ProcessRecord | undefined {
  const command = `(Get-Process -Id ${pid}).StartTime.Ticks`;
  const args = ['-NoProfile', '-NonInteractive', '-Command', command];
  const startedAt = execFileSync('powershell.exe', args, { encoding: 'utf8', windowsHide: true }).trim();
  return startedAt === '' ? undefined : { name: '', parent: 0, startedAt };
}
