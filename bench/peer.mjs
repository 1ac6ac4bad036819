// Ours as a peer of a bench that compares engines: any program that speaks this line protocol can take part.
// It reads JSON lines from stdin and writes lines that begin with '@bench ' (all else that it writes is log):
//   (start)                                     -> {ready: true, pids: {worker, engine}}
//   {cmd: 'jobs', tag, n, pollMs, followUpMs}   -> {job: {i, at, id, status}} per job, then
//                                                  {done: tag, startedAt, endedAt}
//   {cmd: 'store'}                              -> {store: {bytes, events, historyBytes}}
//   {cmd: 'export', rows, out}                  -> {exported: {rows, file, events, historyBytes}}
//   {cmd: 'stop'}                               -> (exit)
// Environment: BENCH_UPSTREAM (URL), BENCH_DIR (scratch folder), TEMPORAL_CLI_PATH (else found as `npm start` finds
// it). Polls closer than 1 second do not exist here: such an interval becomes 1 second. Needs `npm run build`.
import { createWriteStream, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { startProcess } from '../dist/local/child-process.js';
import { findDevServer } from '../dist/local/find-dev-server.js';
import { startDevServer } from '../dist/local/dev-server.js';
import { readRows } from '../dist/exports/snapshots/parquet.js';
import { AgentJobs } from '../dist/starter.js';

const { BENCH_UPSTREAM: upstream, BENCH_DIR: folder } = process.env;
const SHORTEST_POLL_MS = 1_000;
const WINDOW = { dateFrom: '2026-01-01', dateTo: '2026-01-02' };
const say = (message) => process.stdout.write(`@bench ${JSON.stringify(message)}\n`);

async function startWorker({ address, namespace }) {
  const env = {
    TEMPORAL_ADDRESS: address,
    TEMPORAL_NAMESPACE: namespace,
    UPSTREAM_BASE_URL: upstream,
    ADMIN_API_KEY: 'secret',
    SNAPSHOTS_URL: pathToFileURL(join(folder, 'snapshots')).href,
  };
  const program = fileURLToPath(new URL('../dist/worker.js', import.meta.url));
  const logFile = join(folder, 'worker.log');
  const worker = await startProcess({ program: process.execPath, args: [program], env, logFile });
  while (!(await readFile(logFile, 'utf8')).includes('The worker runs')) {
    if (worker.hasEnded()) throw new Error(`the worker does not run: ${worker.logTail()}`);
    await pause(100);
  }
  return worker;
}

async function runJobs(jobs, { tag, n, pollMs, followUpMs }) {
  const wait = Math.max(SHORTEST_POLL_MS, pollMs);
  const startedAt = Date.now();
  const one = async (_, i) => {
    const input = { projectId: 'p1', prompt: `${tag}-${i}`, polling: { min: wait, max: wait }, settle: 0 };
    const job = await jobs.start({ key: `${tag}-${i}`, ...input });
    const followUp = followUpMs && pause(followUpMs).then(() => job.followUp('and add a test'));
    const result = await job.result();
    say({ job: { i, at: Date.now(), id: result.jobId, status: result.outcome } });
    await followUp;
  };
  await Promise.all(Array.from({ length: n }, one));
  say({ done: tag, startedAt, endedAt: Date.now() });
}

async function store(client, databaseFile) {
  let [events, historyBytes] = [0, 0];
  for await (const run of client.workflow.list({ query: "ExecutionStatus = 'Completed'", pageSize: 1_000 })) {
    events += run.historyLength;
    historyBytes += run.historySize ?? 0;
  }
  return { bytes: statSync(databaseFile).size, events, historyBytes };
}

async function runExport(jobs, { rows, out }) {
  const projectId = `p-${rows}-${Date.now()}`;
  const handle = await jobs.exportVisitors({ projectId, ...WINDOW });
  const { snapshots } = await handle.result();
  const file = `${out}.jsonl`;
  // The bench counts lines of JSON. Writing them here is not our work, but its time is counted as ours.
  const folder = fileURLToPath(snapshots[0].location);
  const { files } = JSON.parse(await readFile(join(folder, 'manifest.json'), 'utf8'));
  const parquet = await readFile(join(folder, files[0].name));
  await pipeline(Readable.from(jsonLines(parquet)), createWriteStream(file));
  const { historyLength, historySize } = await jobs.client.workflow.getHandle(handle.workflowId).describe();
  return { rows: snapshots[0].rows, file, events: historyLength, historyBytes: historySize };
}

async function* jsonLines(parquet) {
  for await (const rows of readRows(parquet)) yield rows.map((row) => `${JSON.stringify(row)}\n`).join('');
}

async function serve({ jobs, databaseFile }) {
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    try {
      if (command.cmd === 'stop') return;
      if (command.cmd === 'jobs') await runJobs(jobs, command);
      if (command.cmd === 'store') say({ store: await store(jobs.client, databaseFile) });
      if (command.cmd === 'export') say({ exported: await runExport(jobs, command) });
    } catch (error) {
      say({ error: String(error?.stack ?? error) });
    }
  }
}

const databaseFile = join(folder, 'temporal.db');
const program = await findDevServer({ env: process.env });
const server = await startDevServer({ program, databaseFile, logFile: join(folder, 'temporal.log') });
const worker = await startWorker(server);
const connection = await Connection.connect({ address: server.address });
say({ ready: true, pids: { worker: [worker.pid], engine: [server.pid] } });
await serve({ jobs: new AgentJobs({ client: new Client({ connection }) }), databaseFile });
await connection.close();
await worker.stop(10_000);
await server.stop();
process.exit();
