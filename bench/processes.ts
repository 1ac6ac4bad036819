/** CPU and memory of process trees, from /proc (Linux). */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

const TICKS_PER_SECOND = Number(execFileSync('getconf', ['CLK_TCK']).toString());

interface Stat {
  parent: number;
  /** Children that have ended included. */
  cpuMs: number;
}

function stat(pid: number): Stat {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const ticks = [11, 12, 13, 14].reduce((sum, index) => sum + (fields[index] ?? 0), 0);
  return { parent: fields[1] ?? 0, cpuMs: (1_000 * ticks) / TICKS_PER_SECOND };
}

/** CPU time that these processes and all below them have used so far, in milliseconds. */
export function cpuMs(pids: readonly number[]): number {
  return sum(tree(pids), (pid) => stat(pid).cpuMs);
}

/** CPU time of this process alone, in milliseconds. */
export function ownCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** Memory of these processes and all below them, in MiB; a page that several share counts once. */
export function memoryMiB(pids: readonly number[]): number {
  return sum(tree(pids), ownMemoryMiB);
}

function ownMemoryMiB(pid: number): number {
  const kib = /^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1];
  return Number(kib ?? 0) / 1_024;
}

/** Samples the memory of processes that start no others, until stopped, and then returns the peak in MiB. */
export function watchMemory(pids: readonly number[], everyMs: number): () => number {
  // A search for children reads every process of the machine, which costs too much while CPU is measured.
  return peakOf(() => sum(pids, ownMemoryMiB), everyMs);
}

/** As `watchMemory`, with all processes below the given ones. */
export function watchTreeMemory(pids: readonly number[], everyMs: number): () => number {
  return peakOf(() => memoryMiB(pids), everyMs);
}

function peakOf(look: () => number, everyMs: number): () => number {
  let peak = look();
  const timer = setInterval(() => (peak = Math.max(peak, look())), everyMs);
  return () => {
    clearInterval(timer);
    return Math.max(peak, look());
  };
}

function tree(roots: readonly number[]): number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const parent = whileItLives(() => stat(Number(name)).parent, 0);
    children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const found: number[] = [];
  const left = [...roots];
  for (let pid = left.pop(); pid !== undefined; pid = left.pop()) {
    found.push(pid);
    left.push(...(children.get(pid) ?? []));
  }
  return found;
}

function sum(pids: readonly number[], figure: (pid: number) => number): number {
  return pids.reduce((total, pid) => total + whileItLives(() => figure(pid), 0), 0);
}

/** A process may end between two reads. */
function whileItLives(look: () => number, otherwise: number): number {
  try {
    return look();
  } catch {
    return otherwise;
  }
}
