/**
 * `npx tsx bench/http.ts`, after `npm run build`: what `agent-jobs serve` answers in how long, how much memory open
 * streams take, and what webhooks cost. One dev server, one worker, one `serve`, each a process of its own.
 */
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { freePort, startProcess } from '../src/local/child-process.js';
import { startWorkerProgram, type Bench } from './contender.js';
import { memoryMiB } from './processes.js';
import { uniqueTag } from './figures.js';
import { withBench } from './session.js';

const WORKER = fileURLToPath(new URL('../dist/worker.js', import.meta.url));
const CLI = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url));
const PROJECT = 'bench';
const TASK_QUEUE = 'bench-http';
const LONG = 'runs for an hour';
const OPEN_JOBS = 50;
const IDLE_MS = 60_000;
const COUNTER_LOOK_MS = 4_000;
const UP_WITHIN_MS = 60_000;
/** The worker reads its file at most a second, and looks for events at most five seconds later. */
const FILE_READ_MS = 10_000;

const { values } = parseArgs({
  options: {
    rates: { type: 'string', default: '10,25,50' },
    seconds: { type: 'string', default: '20' },
    streams: { type: 'string', default: '1000' },
    webhooks: { type: 'string', default: '100' },
  },
});

interface Served {
  bench: Bench;
  base: string;
  pid: number;
  webhooksFile: string;
}

async function withServed(run: (served: Served) => Promise<void>): Promise<void> {
  await withBench({ budget: 'unlimited' }, async (bench) => {
    const { folder, temporal, upstream } = bench;
    const webhooksFile = join(folder, 'webhooks.json');
    writeFileSync(webhooksFile, '{}');
    const shared = {
      TEMPORAL_ADDRESS: temporal.address,
      TEMPORAL_NAMESPACE: temporal.namespace,
      AGENT_JOBS_TASK_QUEUE: TASK_QUEUE,
    };
    const env = {
      ...shared,
      ...{ UPSTREAM_BASE_URL: upstream.url, ADMIN_API_KEY: upstream.key },
      ...{ CREATES_PER_HOUR: 'unlimited', MESSAGES_PER_HOUR: 'unlimited' },
      ...{ WEBHOOKS_FILE: webhooksFile, WEBHOOKS_ALLOW_PRIVATE: 'true' },
    };
    const worker = await startWorkerProgram(bench, 'http', { program: WORKER, env, readyText: 'The worker runs' });
    const port = await freePort();
    const serve = await startProcess({
      program: process.execPath,
      args: [CLI, 'serve'],
      env: { ...shared, HTTP_ADDRESS: `127.0.0.1:${port}` },
      logFile: join(folder, 'serve.log'),
    });
    try {
      const base = `http://127.0.0.1:${port}`;
      await untilReady(base);
      await run({ bench, base, pid: serve.pid, webhooksFile });
    } finally {
      await serve.stop(30_000);
      await worker.stop(30_000);
    }
  });
}

async function untilReady(base: string): Promise<void> {
  const isReady = () =>
    fetch(`${base}/readyz`)
      .then(({ ok }) => ok)
      .catch(() => false);
  for (const deadline = Date.now() + UP_WITHIN_MS; !(await isReady()); await pause(200)) {
    if (Date.now() > deadline) throw new Error('serve does not run');
  }
}

function start(base: string, key: string, more: object = {}): Promise<Response> {
  return fetch(`${base}/v1/projects/${PROJECT}/jobs`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': key },
    body: JSON.stringify({ prompt: key, settle: 0, ...more }),
  });
}

/** As many requests a second, whether or not those before are answered. */
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
  console.log(`${name}, ${perSecond} a second: p50 ${at(0.5)}, p99 ${at(0.99)}, answers ${JSON.stringify(statuses)}`);
}

async function measureStreams({ base, pid }: Served, keys: readonly string[]): Promise<void> {
  const count = Number(values.streams);
  const before = memoryMiB([pid]);
  const end = new AbortController();
  const open = async (i: number) => {
    const { body } = await fetch(`${base}/v1/projects/${PROJECT}/jobs/${keys[i % keys.length]}/events`, end);
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

/** The counter once it stands still: it lags behind. */
async function settledActions({ temporal }: Bench): Promise<number> {
  for (let before = await temporal.actions(); ;) {
    await pause(COUNTER_LOOK_MS);
    const now = await temporal.actions();
    if (now === before) return now;
    before = now;
  }
}

async function measureSweep(bench: Bench): Promise<void> {
  const before = await settledActions(bench);
  await pause(IDLE_MS);
  const used = (await settledActions(bench)) - before;
  console.log(`actions of webhooks without an event: ${used} in a minute`);
}

/** Jobs that end at once, without an endpoint and with one. */
async function measureWebhooks({ bench, base, webhooksFile }: Served): Promise<void> {
  const count = Number(values.webhooks);
  let received = 0;
  const receiver = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(204).end());
    received += 1;
  }).listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const secrets = [`whsec_${Buffer.alloc(24, 1).toString('base64')}`];
  const configure = async (hasEndpoint: boolean) => {
    writeFileSync(webhooksFile, JSON.stringify(hasEndpoint ? { [PROJECT]: [{ url, secrets }] } : {}));
    await pause(FILE_READ_MS);
  };
  const run = async (tag: string, jobs: number) => {
    const keys = Array.from({ length: jobs }, (_, i) => `${tag}-${i}`);
    await Promise.all(keys.map((key) => start(base, key)));
    for (const key of keys) {
      await fetch(`${base}/v1/projects/${PROJECT}/jobs/${key}`, { headers: { prefer: 'wait=60' } });
    }
  };
  const untilReceived = async (wanted: number) => {
    for (const deadline = Date.now() + 2 * UP_WITHIN_MS; received < wanted; await pause(200)) {
      if (Date.now() > deadline) throw new Error(`${received} of ${wanted} webhooks came`);
    }
  };
  const actionsOf = async (tag: string, webhooks: number) => {
    const [before, came] = [await settledActions(bench), received];
    await run(uniqueTag(tag), count);
    await untilReceived(came + webhooks);
    await pause(FILE_READ_MS); // all ends are looked at
    return (await settledActions(bench)) - before;
  };
  // A server that has just learned its search attributes lists by them after a while.
  await configure(true);
  await run(uniqueTag('warm'), 1);
  await untilReceived(1);
  await configure(false);
  await measureSweep(bench);
  const without = await actionsOf('without', 0);
  await configure(true);
  const more = (await actionsOf('with', count)) - without;
  console.log(
    `actions of ${count} jobs: ${without}; a webhook of each: ${more} more, ${(more / count).toFixed(2)} each`,
  );
  receiver.close();
}

await withServed(async (served) => {
  const { base, bench } = served;
  await measureWebhooks(served);
  await bench.upstream.control.addScript({ promptIncludes: LONG, script: { activeMs: 3_600_000 } });
  const tag = uniqueTag('open');
  const keys = Array.from({ length: OPEN_JOBS }, (_, i) => `${tag}-${i}`);
  await Promise.all(keys.map((key) => start(base, key, { prompt: `${LONG} ${key}` })));
  for (const rate of values.rates.split(',').map(Number)) {
    await load('a state', rate, (i) => fetch(`${base}/v1/projects/${PROJECT}/jobs/${keys[i % OPEN_JOBS]}`));
  }
  await load('a start', 5, (i) => start(base, `${tag}-start-${i}`));
  await measureStreams(served, keys);
});
