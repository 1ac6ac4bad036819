/**
 * `npx tsx bench/http.ts`, after `npm run build`: how long `agent-jobs serve` takes to answer, also beside a key that
 * takes all it can, and the memory of open streams. One dev server, one worker, one `serve`, each a process of its own.
 */
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { freePort, startProcess } from '../src/local/child-process.js';
import { type Bench, ours, TASK_QUEUE } from './contenders.js';
import { memoryMiB } from './processes.js';
import { uniqueTag } from './results.js';
import { untilAnswers, withBench } from './session.js';

const CLI = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url));
const PROJECT = 'bench';
const LONG = 'runs for an hour';
const OPEN_JOBS = 50;
const KEY = 'bench';
const GREEDY_KEY = 'greedy';

const { values } = parseArgs({
  options: {
    rates: { type: 'string', default: '10,25,50' },
    seconds: { type: 'string', default: '20' },
    streams: { type: 'string', default: '1000' },
  },
});

interface Served {
  bench: Bench;
  base: string;
  pid: number;
}

async function withServed(run: (served: Served) => Promise<void>): Promise<void> {
  await withBench({ budget: 'unlimited' }, async (bench) => {
    const { temporal } = bench;
    const worker = await ours.startWorker(bench);
    const port = await freePort();
    const keysFile = join(bench.folder, 'http-keys.json');
    const entries = [KEY, GREEDY_KEY].map((key) => {
      return [createHash('sha256').update(key).digest('hex'), { name: key, projects: [PROJECT] }] as const;
    });
    await writeFile(keysFile, JSON.stringify(Object.fromEntries(entries)));
    const serve = await startProcess({
      program: process.execPath,
      args: [CLI, 'serve'],
      env: {
        TEMPORAL_ADDRESS: temporal.address,
        TEMPORAL_NAMESPACE: temporal.namespace,
        AGENT_JOBS_TASK_QUEUE: TASK_QUEUE,
        HTTP_ADDRESS: `127.0.0.1:${port}`,
        HTTP_KEYS_FILE: keysFile,
      },
      logFile: join(bench.folder, 'serve.log'),
    });
    try {
      const base = `http://127.0.0.1:${port}`;
      await untilAnswers(() => fetch(base));
      await run({ bench, base, pid: serve.pid });
    } finally {
      await serve.stop(30_000);
      await worker.stop(30_000);
    }
  });
}

const by = (key: string) => ({ authorization: `Bearer ${key}` });

function start(base: string, key: string, more: object = {}, caller = KEY): Promise<Response> {
  return fetch(`${base}/v1/projects/${PROJECT}/jobs`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': key, ...by(caller) },
    body: JSON.stringify({ prompt: key, settle: 0, ...more }),
  });
}

/** Sends `perSecond` requests a second, whether or not those before are answered. */
async function load(name: string, perSecond: number, call: (i: number) => Promise<Response>): Promise<void> {
  const count = perSecond * Number(values.seconds);
  const took: number[] = [];
  const statuses: Record<string, number> = {};
  const one = async (i: number) => {
    await pause((1_000 * i) / perSecond);
    const startedAt = performance.now();
    const status = await call(i).then(
      async (response) => (await response.text(), response.status),
      (error: Error) => error.name,
    );
    took.push(performance.now() - startedAt);
    statuses[status] = (statuses[status] ?? 0) + 1;
  };
  await Promise.all(Array.from({ length: count }, (_, i) => one(i)));
  took.sort((a, b) => a - b);
  const at = (share: number) => `${Math.round(took[Math.min(count - 1, Math.floor(share * count))]!)} ms`;
  const times = [0.5, 0.95, 0.99].map((share) => `p${100 * share} ${at(share)}`);
  console.log(`${name}, ${perSecond} a second: ${times.join(', ')}, answers ${JSON.stringify(statuses)}`);
}

/** What one key may send without an end, each 50 at a time. */
function greedyCalls(base: string, tag: string): [string, (i: string) => Promise<unknown>][] {
  const list = () => fetch(`${base}/v1/projects/${PROJECT}/jobs?limit=200`, { headers: by(GREEDY_KEY) });
  const large = 'x'.repeat(510 * 1024);
  const heard = async (answer: Promise<Response>) => (await answer).text();
  return [
    ['lists', () => heard(list())],
    ['large bodies that are invalid', (i) => heard(start(base, i, { prompt: 1, metadata: { large } }, GREEDY_KEY))],
    ['large starts of one job', () => heard(start(base, `${tag}-large`, { prompt: large }, GREEDY_KEY))],
  ];
}

async function measureStreams({ base, pid }: Served, keys: readonly string[]): Promise<void> {
  const count = Number(values.streams);
  const before = memoryMiB([pid]);
  const end = new AbortController();
  const open = async (i: number) => {
    const { body } = await fetch(`${base}/v1/projects/${PROJECT}/jobs/${keys[i % keys.length]}/events`, {
      headers: by(KEY),
      signal: end.signal,
    });
    const reader = body!.getReader();
    await reader.read();
    return reader;
  };
  const readers: Awaited<ReturnType<typeof open>>[] = [];
  for (let i = 0; i < count; i += OPEN_JOBS) {
    readers.push(...(await Promise.all(Array.from({ length: Math.min(OPEN_JOBS, count - i) }, (_, j) => open(i + j)))));
  }
  await pause(10_000);
  const during = memoryMiB([pid]);
  end.abort();
  await Promise.allSettled(readers.map((reader) => reader.cancel()));
  await pause(10_000);
  const memory = [before, during, memoryMiB([pid])].map((mib) => Math.round(mib));
  console.log(
    `memory of serve: ${memory[0]} MiB, with ${count} open streams ${memory[1]} MiB, after them ${memory[2]} MiB`,
  );
}

await withServed(async (served) => {
  const { base, bench } = served;
  await bench.upstream.control.addScript({ promptIncludes: LONG, script: { activeMs: 3_600_000 } });
  const tag = uniqueTag('open');
  const keys = Array.from({ length: OPEN_JOBS }, (_, i) => `${tag}-${i}`);
  await Promise.all(keys.map((key) => start(base, key, { prompt: `${LONG} ${key}` })));
  const state = (i: number) => {
    return fetch(`${base}/v1/projects/${PROJECT}/jobs/${keys[i % OPEN_JOBS]}`, { headers: by(KEY) });
  };
  for (const rate of values.rates.split(',').map(Number)) {
    await load('a state', rate, state);
  }
  await load('a start', 5, (i) => start(base, `${tag}-start-${i}`));
  for (const [name, greed] of greedyCalls(base, tag)) {
    const end = new AbortController();
    const lanes = Array.from({ length: 50 }, async (_, lane) => {
      for (let i = 0; !end.signal.aborted; i += 1) await greed(`${lane}-${i}`).catch(() => {});
    });
    await load(`a state beside ${name}`, 10, state);
    end.abort();
    await Promise.all(lanes);
  }
  await measureStreams(served, keys);
});
