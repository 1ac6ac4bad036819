/** The crash suite's long version: `npm run test:chaos -- --minutes 20 --seed 7`. */
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { findDevServer } from '../../src/local/find-dev-server.js';
import { runChaos, type ChaosOptions } from './chaos-run.js';
import { everyFault } from './faults.js';
import { formatReport } from './report.js';
import { connectCommandedTemporal, startFileTemporal, type KillableTemporal } from './temporal-server.js';

const USAGE = `Usage: npm run test:chaos -- [options]

  --minutes N            how long jobs are started and disturbed, default 2
  --seed N               the same seed plans the same jobs and faults; default: a random one
  --budget N             the upstream takes N creates and N messages an hour from each of 4 projects
  --hour SECS            with --budget: how long such an hour is, default 60
  --other-build FOLDER   half of the workers are of this checkout, which was built: a roll-out, back and forth
  --temporal ADDRESS     host:port of a server that runs already, such as one on PostgreSQL
  --temporal-kill CMD    a shell command that kills it with SIGKILL
  --temporal-start CMD   a shell command that starts it again and waits until it answers`;

const OPTIONS = {
  minutes: { type: 'string', default: '2' },
  seed: { type: 'string' },
  budget: { type: 'string' },
  hour: { type: 'string', default: '60' },
  'other-build': { type: 'string' },
  temporal: { type: 'string' },
  'temporal-kill': { type: 'string' },
  'temporal-start': { type: 'string' },
  help: { type: 'boolean' },
} as const;

type Values = ReturnType<typeof parseArgs<{ options: typeof OPTIONS }>>['values'];

/** A job whose turn was lost asks again within 20 minutes. The others end earlier. */
const CALM_MS = 25 * 60_000;

function chaosOptions({ seed: given, minutes, budget, hour, 'other-build': otherBuild }: Values): ChaosOptions {
  const seed = given === undefined ? Math.floor(Math.random() * 1_000_000) : Number(given);
  return {
    seed,
    loadMs: Number(minutes) * 60_000,
    concurrency: 100,
    workers: 3,
    faults: everyFault(seed, 1),
    disturbEveryMs: 10_000,
    workerFaultWithin: 60,
    suspends: true,
    upstreamTimeout: '5 seconds',
    budget: budget === undefined ? undefined : { perHour: Number(budget), hourMs: Number(hour) * 1_000 },
    otherBuild,
    calmMs: CALM_MS,
    say: (line) => console.log(`${new Date().toISOString().slice(11, 19)}  ${line}`),
  };
}

async function startTemporal(values: Values): Promise<KillableTemporal> {
  const { temporal: address, 'temporal-kill': kill, 'temporal-start': start } = values;
  if (address !== undefined) return connectCommandedTemporal({ address, namespace: 'default', kill, start });
  const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-chaos-temporal-'));
  console.log(`Temporal's database is in ${folder}`);
  return startFileTemporal(await findDevServer({ env: process.env, onProgress: console.error }), folder);
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: OPTIONS });
  if (values.help) return console.log(USAGE);
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
