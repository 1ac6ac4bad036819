/** `npm run bench`: our worker against a plain Temporal implementation of the same work, on the same server. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runJobs } from './jobs-run.js';
import { readOptions, USAGE, type Options } from './options.js';
import { Recorder } from './recorder.js';
import { repeat, turns } from './repetition.js';
import { runCrowd } from './scenarios/crowd.js';
import { runKilledWorker } from './scenarios/killed-worker.js';
import { countsOnly, tenMinutes } from './scenarios/ten-minutes.js';
import { uniqueTag, withBench, withWorker } from './session.js';
import { summary } from './summary.js';
import { tables } from './table.js';

const RESULTS = fileURLToPath(new URL('./results/', import.meta.url));
const REPEATED = ['drain', 'steady', 'burst', 'followUp', 'export'] as const;

async function main(options: Options): Promise<void> {
  const { scenarios, server, reps } = options;
  const file = options.out ?? join(RESULTS, `${new Date().toISOString().replace(/[:.]/g, '-')}.json`);
  const recorder = new Recorder(file, server ? 'a given server' : 'the dev server');
  if (REPEATED.some((name) => scenarios.includes(name))) {
    await withBench(options, async (bench) => {
      for (let repetition = 1; repetition <= reps; repetition++) await repeat(bench, options, repetition, recorder);
    });
  }
  if (scenarios.includes('tenMinutes')) await usualJobs(options, recorder);
  if (scenarios.includes('crowd')) await crowds(options, recorder);
  if (scenarios.includes('killed')) await killedWorkers(options, recorder);
  console.log(`Measured on ${recorder.place}; median (least–most).\n`);
  console.log(summary(recorder.measured));
  console.log(tables(recorder.measured));
  console.error(`JSON: ${file}`);
}

/** Both contenders at once, each with a server and an upstream of its own: only counts are taken. */
async function usualJobs(options: Options, recorder: Recorder): Promise<void> {
  const { ten, tenMs, server } = options;
  const runs = turns(options).map((contender) => async () => {
    await withBench(options, (bench) =>
      withWorker(bench, contender, async (worker) => {
        const work = tenMinutes(ten, uniqueTag('ten'), tenMs);
        const measure = async () => countsOnly(await runJobs(bench, contender, worker, work));
        await recorder.run({ scenario: 'ten minutes', contender: contender.name, repetition: 1 }, measure);
      }),
    );
  });
  // A given server serves both contenders.
  if (server) for (const run of runs) await run();
  else await Promise.all(runs.map((run) => run()));
}

/** Each contender with a fresh server. */
async function crowds(options: Options, recorder: Recorder): Promise<void> {
  for (const contender of turns(options)) {
    await withBench(options, (bench) =>
      withWorker(bench, contender, (worker) => runCrowd({ bench, contender, worker, options, recorder })),
    );
  }
}

/** Each contender with a fresh server. */
async function killedWorkers(options: Options, recorder: Recorder): Promise<void> {
  for (const contender of turns(options)) {
    await withBench(options, (bench) => runKilledWorker(bench, contender, options, recorder));
  }
}

const options = readOptions(process.argv.slice(2));
if (options === null) console.log(USAGE);
else await main(options);
// The Temporal client's connections may linger.
process.exit();
