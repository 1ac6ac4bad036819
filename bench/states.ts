/**
 * `npx tsx bench/states.ts`: on what `npm start` starts, jobs are started and each is asked for its state at once,
 * while the others still start. Counts the calls that failed, which must be none.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { AgentJobs } from '../src/starter.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** The first start may fetch Temporal's program. */
const UP_WITHIN_MS = 180_000;
/** Longer than any call's own limit, after which it has failed. */
const MOST_MS = 300_000;

interface Up {
  address: string;
  taskQueue: string;
}

/** The built system, with a data folder of its own; it takes free ports where the usual ones are busy. */
function startSystem(folder: string): ChildProcess {
  const env = { ...process.env, XDG_STATE_HOME: folder };
  return spawn(process.execPath, ['dist/local/main.js'], { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'inherit'] });
}

async function untilUp(system: ChildProcess): Promise<Up> {
  let said = '';
  let isOver = false;
  system.stdout?.setEncoding('utf8').on('data', (text: string) => (said += text));
  void once(system, 'close').then(() => (isOver = true));
  for (const deadline = Date.now() + UP_WITHIN_MS; Date.now() < deadline && !isOver; await delay(100)) {
    const [, address, taskQueue] = /^Temporal +(\S+), namespace \S+, task queue (\S+)$/m.exec(said) ?? [];
    // The demo job has ended: the worker serves.
    if (address && taskQueue && said.includes('Everything stays up')) return { address, taskQueue };
  }
  throw new Error(`the system did not come up:\n${said}`);
}

/** How many calls failed, by the error's name and the beginning of its text. */
type Failures = Record<string, number>;

function counted(failures: Failures, what: string) {
  return (error: Error): null => {
    const kind = `${what}: ${error.name}: ${error.message.slice(0, 160)}`;
    failures[kind] = (failures[kind] ?? 0) + 1;
    return null;
  };
}

async function ask(jobs: AgentJobs, count: number): Promise<void> {
  const failures: Failures = {};
  const slowest = { start: 0, state: 0 };
  const timed = async <T>(what: keyof typeof slowest, call: Promise<T>): Promise<T> => {
    const startedAt = performance.now();
    return call.finally(() => (slowest[what] = Math.max(slowest[what], performance.now() - startedAt)));
  };
  let states = 0;
  const one = async (i: number) => {
    const key = `states-${process.pid}-${i}`;
    const starting = jobs.start({ key, projectId: 'bench', prompt: `job ${key}` });
    const job = await timed('start', starting).catch(counted(failures, 'start'));
    const state = await (job && timed('state', job.state()).catch(counted(failures, 'state')));
    if (state) states += 1;
  };
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: count }, (_, i) => one(i)));
  const failed = Object.values(failures).reduce((sum, times) => sum + times, 0);
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  console.log(`${count} jobs started, ${states} states read, ${failed} calls failed, in ${seconds} s`);
  console.log(`slowest start ${Math.round(slowest.start)} ms, slowest state ${Math.round(slowest.state)} ms`);
  for (const [kind, times] of Object.entries(failures)) console.log(`${times} x ${kind}`);
  if (failed > 0 || states !== count) process.exitCode = 1;
}

const { values } = parseArgs({ options: { jobs: { type: 'string', default: '200' } } });
const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-bench-'));
const system = startSystem(folder);
const limit = setTimeout(() => system.kill('SIGTERM'), UP_WITHIN_MS + MOST_MS);
try {
  const { address, taskQueue } = await untilUp(system);
  await using jobs = await AgentJobs.connect({ address, namespace: 'default', taskQueue });
  await ask(jobs, Number(values.jobs));
} finally {
  clearTimeout(limit);
  const ended = once(system, 'close');
  system.kill('SIGTERM');
  if (system.exitCode === null) await ended;
  await rm(folder, { recursive: true, force: true });
}
