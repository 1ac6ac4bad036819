/** `npm run bench`: our worker against a plain Temporal implementation of the same work, on the same server. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runJobs } from './jobs-run.js';
import { readOptions, USAGE, type Options } from './options.js';
import { Recorder } from './recorder.js';
import { repeat, turns } from './repetition.js';
import { runCrowd } from './scenarios/crowd.js';
import { countsOnly, tenMinutes } from './scenarios/jobs.js';
import { runKilledWorker } from './scenarios/killed-worker.js';
import { withBench, withWorker } from './session.js';
import { tables } from './table.js';

const RESULTS = fileURLToPath(new URL('./results/', import.meta.url));
const REPEATED = ['drain', 'steady', 'followUp', 'export'] as const;

async function main(options: Options): Promise<void> {
  const { scenarios, reps } = options;
  const file = options.out ?? join(RESULTS, `${new Date().toISOString().replace(/[:.]/g, '-')}.json`);
  const recorder = new Recorder(file);
  if (REPEATED.some((name) => scenarios.includes(name))) {
    await withBench(options, async (bench) => {
      for (let repetition = 1; repetition <= reps; repetition++) await repeat(bench, options, repetition, recorder);
    });
  }
  if (scenarios.includes('tenMinutes')) await usualJobs(options, recorder);
  // Each contender with a fresh server.
  for (const contender of scenarios.includes('crowd') ? turns(options) : []) {
    await withBench(options, (bench) =>
      withWorker(bench, contender, (worker) => runCrowd({ bench, contender, worker, options, recorder })),
    );
  }
  for (const contender of scenarios.includes('killed') ? turns(options) : []) {
    await withBench(options, (bench) => runKilledWorker(bench, contender, options, recorder));
  }
  console.log(`Measured on ${recorder.place}; median (least–most).\n`);
  console.log(tables(recorder.measured));
  console.error(`JSON: ${file}`);
}

/** Both contenders at once, each with a server and an upstream of its own: only counts are taken. */
async function usualJobs(options: Options, recorder: Recorder): Promise<void> {
  const runs = turns(options).map((contender) =>
    withBench(options, (bench) =>
      withWorker(bench, contender, async (worker) => {
        const measure = async () => countsOnly(await runJobs(bench, contender, worker, tenMinutes(options)));
        await recorder.run({ scenario: 'ten minutes', contender: contender.name, repetition: 1 }, measure);
      }),
    ),
  );
  await Promise.all(runs);
}

const options = readOptions(process.argv.slice(2));
if (options === null) console.log(USAGE);
else await main(options);
// The Temporal client's connections may linger.
process.exit();
