/** The crash suite's long version: `npm run test:chaos -- --minutes 20 --seed 7`. */
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { findDevServer } from '../../src/local/fetched-program.js';
import { runChaos, type ChaosOptions } from './chaos-run.js';
import { runClientWrites } from './client-writes.js';
import { everyFault, faultsSpreadOverMoments } from './faults.js';
import { addPiece, nextSeed, readPieces, sumOfPieces } from './pieces.js';
import { formatClientWrites, formatReport } from './report.js';
import type { ShortBudget } from './short-budget.js';
import { connectCommandedTemporal, startFileTemporal, type KillableTemporal } from './temporal-server.js';

const USAGE = `Usage: npm run test:chaos -- [options]

  --minutes N            how long jobs are started and disturbed, default 2; with --writes as long as it takes
  --seed N               the same seed plans the same jobs and faults; default: a random one
  --jobs N               starts at most so many
  --concurrency N        jobs under way at once, default 100
  --workers N            worker processes, default 3
  --faults PERCENT       chance of each kind of upstream fault, default 1; with --writes of all together
  --disturb-every SECS   mean pause between faults of whole processes, default 10; 0 for none
  --strike-within N      a fault in each worker process at one of its first N writes, default 60
  --budget N             the upstream takes N creates and N messages an hour from each of 4 projects
  --hour SECS            with --budget: how long such an hour is, default 60
  --other-build FOLDER   half of the workers are of this checkout, which was built: a roll-out, back and forth
  --writes N             faults only: about so many writes, all under policy ask, nobody is killed
  --client               with --writes: through the upstream client alone, without Temporal
  --pieces FILE          with --client: goes on where the pieces in FILE end, adds one under the next seed, \
and shows their sum
  --pg                   a server that runs already, such as one on PostgreSQL:
  --temporal ADDRESS       its host:port
  --temporal-kill CMD      a shell command that kills it with SIGKILL
  --temporal-start CMD     a shell command that starts it again and waits until it answers`;

const OPTIONS = {
  minutes: { type: 'string' },
  seed: { type: 'string' },
  jobs: { type: 'string' },
  concurrency: { type: 'string', default: '100' },
  workers: { type: 'string', default: '3' },
  faults: { type: 'string', default: '1' },
  'disturb-every': { type: 'string', default: '10' },
  'strike-within': { type: 'string', default: '60' },
  budget: { type: 'string' },
  hour: { type: 'string', default: '60' },
  'other-build': { type: 'string' },
  writes: { type: 'string' },
  client: { type: 'boolean' },
  pieces: { type: 'string' },
  pg: { type: 'boolean' },
  temporal: { type: 'string' },
  'temporal-kill': { type: 'string' },
  'temporal-start': { type: 'string' },
  help: { type: 'boolean' },
} as const;

type Values = ReturnType<typeof parseArgs<{ options: typeof OPTIONS }>>['values'];

/** A server that was short of time gives a workflow task that timed out again and again up to ten minutes. */
const CALM_MS = 15 * 60_000;
/** One create and this many follow-ups less one: few workflows, many writes. */
const WRITES_PER_JOB = 25;

function chaosOptions(
  values: Values,
  seed = toNumber(values.seed) ?? Math.floor(Math.random() * 1_000_000),
): ChaosOptions {
  const isWritesOnly = values.writes !== undefined;
  const disturbEveryMs = Number(values['disturb-every']) * 1_000;
  return {
    seed,
    loadMs: Number(values.minutes ?? (isWritesOnly ? 24 * 60 : 2)) * 60_000,
    maxJobs: isWritesOnly ? Math.ceil(Number(values.writes) / WRITES_PER_JOB) : toNumber(values.jobs),
    concurrency: Number(values.concurrency),
    workers: Number(values.workers),
    faults: (isWritesOnly ? faultsSpreadOverMoments : everyFault)(seed, Number(values.faults)),
    disturbEveryMs: isWritesOnly || disturbEveryMs === 0 ? null : disturbEveryMs,
    workerFaultWithin: isWritesOnly || disturbEveryMs === 0 ? null : Number(values['strike-within']),
    suspends: true,
    writesPerJob: isWritesOnly ? WRITES_PER_JOB : undefined,
    upstreamTimeout: '5 seconds',
    budget: shortBudget(values),
    otherBuild: values['other-build'],
    calmMs: CALM_MS,
    say: (line) => console.log(`${new Date().toISOString().slice(11, 19)}  ${line}`),
  };
}

function shortBudget({ budget, hour }: Values): ShortBudget | undefined {
  return budget === undefined ? undefined : { perHour: Number(budget), hourMs: Number(hour) * 1_000 };
}

function toNumber(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}

async function startTemporal(values: Values): Promise<KillableTemporal> {
  const { temporal: address, 'temporal-kill': kill, 'temporal-start': start } = values;
  if (address !== undefined) return connectCommandedTemporal({ address, namespace: 'default', kill, start });
  if (values.pg) throw new Error('--pg needs --temporal, and --temporal-kill and --temporal-start to be killed');
  const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-chaos-temporal-'));
  return startFileTemporal(await findDevServer({ env: process.env, onProgress: console.error }), folder);
}

async function clientWrites(values: Values): Promise<void> {
  const pieces = values.pieces === undefined ? [] : readPieces(values.pieces);
  const before = sumOfPieces(pieces).writes;
  const options = chaosOptions(
    values,
    values.pieces === undefined ? undefined : nextSeed(pieces, toNumber(values.seed)),
  );
  const writes = Number(values.writes) - before;
  if (writes <= 0) {
    console.log(`All ${pieces.length} pieces:\n${formatClientWrites(sumOfPieces(pieces))}`);
    return;
  }
  options.say(`seed ${options.seed}, ${writes} writes after ${before} of ${pieces.length} pieces`);
  let report = await runClientWrites({ ...options, writes, writesPerJob: WRITES_PER_JOB });
  console.log(formatClientWrites(report));
  if (values.pieces !== undefined) {
    addPiece(values.pieces, { ...report, seed: options.seed });
    report = sumOfPieces(readPieces(values.pieces));
    console.log(`\nAll ${pieces.length + 1} pieces:\n${formatClientWrites(report)}`);
  }
  if (report.doubled.length + report.lost.length > 0) process.exitCode = 1;
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: OPTIONS });
  if (values.help) return console.log(USAGE);
  if (values.client) return clientWrites(values);
  const options = chaosOptions(values);
  const temporal = await startTemporal(values);
  try {
    const report = await runChaos(temporal, options);
    console.log(formatReport(report));
    if (report.violations.length > 0) process.exitCode = 1;
  } finally {
    await temporal.close();
  }
}

await main();
