/** One repetition of the scenarios that are repeated: each contender in turn, on the same server. */
import { baseline } from './baseline.js';
import type { Bench, Contender } from './contender.js';
import type { Figures } from './figures.js';
import { runJobs, type JobsWork } from './jobs-run.js';
import type { Options } from './options.js';
import { ours } from './ours.js';
import type { Recorder } from './recorder.js';
import { exportWithDlt, exportWithFetchLoop, exportWithOurs } from './scenarios/export.js';
import { drain, followUpAtStart, followUpInWait, furtherPoll, steady } from './scenarios/jobs.js';
import { withWorker } from './session.js';

/** Both contenders, or the requested one; every second repetition reverses their order. */
export function turns({ only }: Options, repetition = 1): Contender[] {
  const both = repetition % 2 === 1 ? [ours, baseline] : [baseline, ours];
  return both.filter(({ name }) => only === undefined || only === name);
}

export async function repeat(bench: Bench, options: Options, repetition: number, recorder: Recorder): Promise<void> {
  const exporting = async (contender: string, measure: (rows: number) => Promise<Figures>) => {
    for (const rows of options.scenarios.includes('export') ? options.rows : []) {
      const scenario = `export of ${rows.toLocaleString('en')} rows`;
      await recorder.run({ scenario, contender, repetition }, () => measure(rows));
    }
  };
  for (const contender of turns(options, repetition)) {
    await withWorker(bench, contender, async (worker) => {
      for (const work of jobScenarios(options, repetition)) {
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
  const { python } = options;
  if (python !== undefined) await exporting('dlt', (rows) => exportWithDlt(bench, rows, python));
}

/** The requested scenarios; those that only count events run once. */
function jobScenarios(options: Options, repetition: number): JobsWork[] {
  const { scenarios } = options;
  return [
    ...(scenarios.includes('drain') ? [drain(options)] : []),
    ...(scenarios.includes('steady') ? [steady(options)] : []),
    ...(scenarios.includes('followUp') && repetition === 1 ? [followUpInWait(options), followUpAtStart(options)] : []),
  ];
}

function addFurtherPoll(contender: string, repetition: number, recorder: Recorder): void {
  const find = (scenario: string) =>
    recorder.measured.find(
      (one) => one.scenario === scenario && one.contender === contender && one.repetition === repetition,
    );
  const [few, many] = [find('drain'), find('steady')];
  if (few && many) recorder.add(furtherPoll(few, many));
}
