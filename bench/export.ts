/** One date range of rows out of the paged endpoint: ours against a plain loop, and dlt if Python has it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ManagedProcess } from '../src/local/child-process.js';
import { type Bench, oursClient } from './contenders.js';
import { cpuMs, ownCpuMs, watchMemory, watchTreeMemory } from './processes.js';
import type { Figures } from './results.js';

const FETCH_LOOP = fileURLToPath(new URL('./export/fetch-loop.mjs', import.meta.url));
const DLT = fileURLToPath(new URL('./export/dlt-export.py', import.meta.url));
/** In the past, so that no more data arrive. */
const DATES = { dateFrom: '2026-01-01', dateTo: '2026-01-02' };

/** The date range of one project, as our worker exports it. */
export async function exportWithOurs(
  bench: Bench,
  worker: ManagedProcess,
  { rows, projectId }: { rows: number; projectId: string },
): Promise<Figures> {
  await prepare(bench, rows);
  const pids = [worker.pid];
  const peak = watchMemory(pids, 200);
  const cpu = { worker: cpuMs(pids), server: cpuMs(bench.temporal.pids), caller: ownCpuMs() };
  const startedAt = Date.now();
  const handle = await oursClient(bench).exportVisitors({ projectId, ...DATES });
  const { snapshots } = await handle.result();
  const wallMs = Date.now() - startedAt;
  const server = cpuMs(bench.temporal.pids) - cpu.server;
  const used = cpuMs(pids) - cpu.worker + server + ownCpuMs() - cpu.caller;
  const { historyLength, historySize } = await bench.temporal.client.workflow.getHandle(handle.workflowId).describe();
  return {
    ...(await figures(bench, { rows, wallMs, used, peak: peak() })),
    'rows arrived': snapshots[0]?.rows ?? null,
    'history events': historyLength,
    'history bytes': historySize ?? null,
    'CPU s per million rows, server': (1_000 * server) / rows,
  };
}

/** The plain loop, in a process of its own. */
export function exportWithFetchLoop(bench: Bench, rows: number): Promise<Figures> {
  const args = [FETCH_LOOP, bench.upstream.url, bench.upstream.key, join(bench.folder, `loop-${rows}.jsonl`)];
  return exportWithProgram(bench, rows, process.execPath, args);
}

/** dlt, with a Python that has it. */
export function exportWithDlt(bench: Bench, rows: number, python: string): Promise<Figures> {
  const args = [DLT, bench.upstream.url, bench.upstream.key, join(bench.folder, `dlt-${rows}-${Date.now()}`)];
  return exportWithProgram(bench, rows, python, args);
}

async function exportWithProgram(bench: Bench, rows: number, program: string, args: string[]): Promise<Figures> {
  await prepare(bench, rows);
  const env = { ...process.env, RUNTIME__DLTHUB_TELEMETRY: 'false' };
  const startedAt = Date.now();
  const child = spawn(program, args, { env, stdio: ['ignore', 'ignore', 'inherit'] });
  const peak = watchTreeMemory([child.pid ?? 0], 200);
  let used = 0;
  const look = setInterval(() => (used = Math.max(used, cpuMs([child.pid ?? 0]))), 50);
  const [code] = (await once(child, 'exit')) as [number | null];
  clearInterval(look);
  if (code !== 0) throw new Error(`${program} ended with ${code}`);
  return figures(bench, { rows, wallMs: Date.now() - startedAt, used, peak: peak() });
}

async function prepare({ upstream }: Bench, rows: number): Promise<void> {
  await upstream.control.setVisitors({ rows });
  await upstream.countAnew();
}

async function figures(
  { upstream }: Bench,
  { rows, wallMs, used, peak }: { rows: number; wallMs: number; used: number; peak: number },
): Promise<Figures> {
  return {
    'rows per second': rows / (wallMs / 1_000),
    'CPU s per million rows': (1_000 * used) / rows,
    'peak memory MiB': peak,
    requests: (await upstream.requests()).visitors,
  };
}
