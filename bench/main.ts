/** `npm run bench`: our worker against a plain Temporal implementation of the same work, on the same server. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Bench, inOrder, ours } from './contenders.js';
import { runCrowd } from './crowd.js';
import { exportWithDlt, exportWithFetchLoop, exportWithOurs } from './export.js';
import { drain, furtherPoll, runJobs, steady, tenMinutes } from './jobs.js';
import { readOptions, USAGE, type Options } from './options.js';
import { type Figures, printTables, Recorder } from './results.js';
import { withBench, withWorker } from './session.js';

const RESULTS = fileURLToPath(new URL('./results/', import.meta.url));

async function main(options: Options): Promise<void> {
  const { scenarios, reps } = options;
  const file = options.out ?? join(RESULTS, `${new Date().toISOString().replace(/[:.]/g, '-')}.json`);
  const recorder = new Recorder(file);
  if (scenarios.some((name) => name !== 'crowd')) {
    await withBench(options, async (bench) => {
      for (let repetition = 1; repetition <= reps; repetition++) await repeat(bench, options, repetition, recorder);
    });
  }
  // Each contender with a fresh server.
  for (const contender of scenarios.includes('crowd') ? inOrder(options) : []) {
    await withBench(options, (bench) =>
      withWorker(bench, contender, (worker) => runCrowd({ bench, contender, worker, options, recorder })),
    );
  }
  console.log(`Measured on ${recorder.place}; median (least–most).\n`);
  printTables(recorder.measured);
  console.error(`JSON: ${file}`);
}

/** One repetition: each contender in turn, on the same server. */
async function repeat(bench: Bench, options: Options, repetition: number, recorder: Recorder): Promise<void> {
  const { scenarios, python } = options;
  const exporting = async (contender: string, measure: (rows: number) => Promise<Figures>) => {
    for (const rows of scenarios.includes('export') ? options.rows : []) {
      const scenario = `export of ${rows.toLocaleString('en')} rows`;
      await recorder.run({ scenario, contender, repetition }, () => measure(rows));
    }
  };
  for (const contender of inOrder(options, repetition)) {
    await withWorker(bench, contender, async (worker) => {
      const works = [
        ...(scenarios.includes('drain') ? [drain(options)] : []),
        ...(scenarios.includes('steady') ? [steady(options)] : []),
        ...(scenarios.includes('tenMinutes') && repetition === 1 ? [tenMinutes(options)] : []),
      ];
      for (const work of works) {
        const measure = () => runJobs(bench, contender, worker, work);
        await recorder.run({ scenario: work.name, contender: contender.name, repetition }, measure);
      }
      const toOurs = (rows: number) =>
        exportWithOurs(bench, worker, { rows, projectId: `bench-${rows}-${repetition}` });
      if (contender === ours) await exporting(ours.name, toOurs);
    });
    addFurtherPoll(contender.name, repetition, recorder);
  }
  await exporting('fetch loop', (rows) => exportWithFetchLoop(bench, rows));
  if (python !== undefined) await exporting('dlt', (rows) => exportWithDlt(bench, rows, python));
}

function addFurtherPoll(contender: string, repetition: number, recorder: Recorder): void {
  const find = (scenario: string) =>
    recorder.measured.find(
      (one) => one.scenario === scenario && one.contender === contender && one.repetition === repetition,
    );
  const [few, many] = [find('drain'), find('steady')];
  if (few && many) recorder.add(furtherPoll(few, many));
}

const options = readOptions(process.argv.slice(2));
if (options === null) console.log(USAGE);
else await main(options);
// The Temporal client's connections may stay open.
process.exit();
