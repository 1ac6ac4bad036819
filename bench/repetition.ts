/** One repetition of the scenarios that are repeated: each contender in turn, on the same server. */
import type { ManagedProcess } from '../src/local/child-process.js';
import { baseline } from './baseline.js';
import type { Bench, Contender } from './contender.js';
import { runJobs, type JobsWork } from './jobs-run.js';
import type { Options, Scenario } from './options.js';
import { ours } from './ours.js';
import type { Recorder } from './recorder.js';
import { burst } from './scenarios/burst.js';
import { drain } from './scenarios/drain.js';
import { exportWithDlt, exportWithFetchLoop, exportWithOurs } from './scenarios/export.js';
import { followUpAtStart, followUpInWait } from './scenarios/follow-up.js';
import { furtherPoll } from './scenarios/further-poll.js';
import { steady } from './scenarios/steady.js';
import { uniqueTag, withWorker } from './session.js';

/** Both contenders, or the requested one; every second repetition reverses their order. */
export function turns({ only }: Options, repetition = 1): Contender[] {
  const both = repetition % 2 === 1 ? [ours, baseline] : [baseline, ours];
  return both.filter(({ name }) => only === undefined || only === name);
}

export async function repeat(bench: Bench, options: Options, repetition: number, recorder: Recorder): Promise<void> {
  for (const contender of turns(options, repetition)) {
    await withWorker(bench, contender, async (worker) => {
      for (const [scenario, work] of jobScenarios(options, repetition)) {
        const measure = () => runJobs(bench, contender, worker, work);
        await recorder.run({ scenario, contender: contender.name, repetition }, measure);
      }
      if (contender === ours) await ourExports(bench, worker, options, repetition, recorder);
    });
    addFurtherPoll(contender.name, repetition, recorder);
  }
  await otherExports(bench, options, repetition, recorder);
}

/** The requested scenarios; those that only count events run once. */
function jobScenarios(options: Options, repetition: number): [string, JobsWork][] {
  const { n, steady: few, steadyMs, followUps } = options;
  const works: [Scenario, string, JobsWork][] = [
    ['drain', 'drain', drain(n, uniqueTag('drain'))],
    ['steady', 'steady', steady(few, uniqueTag('steady'), steadyMs)],
    ['burst', 'burst', burst(n, uniqueTag('burst'))],
  ];
  if (repetition === 1) {
    works.push(['followUp', 'a follow-up in a wait', followUpInWait(followUps, uniqueTag('in-wait'))]);
    works.push(['followUp', 'a follow-up at the start', followUpAtStart(followUps, uniqueTag('at-start'))]);
  }
  return works
    .filter(([scenario]) => options.scenarios.includes(scenario))
    .map(([, name, work]): [string, JobsWork] => [name, work]);
}

function addFurtherPoll(contender: string, repetition: number, recorder: Recorder): void {
  const find = (scenario: string) =>
    recorder.measured.find(
      (one) => one.scenario === scenario && one.contender === contender && one.repetition === repetition,
    );
  const [few, many] = [find('drain'), find('steady')];
  if (few && many) recorder.add(furtherPoll(few, many));
}

async function ourExports(
  bench: Bench,
  worker: ManagedProcess,
  { scenarios, rows }: Options,
  repetition: number,
  recorder: Recorder,
): Promise<void> {
  if (!scenarios.includes('export')) return;
  for (const count of rows) {
    const projectId = `bench-${count}-${repetition}`;
    const measure = () => exportWithOurs(bench, worker, { rows: count, projectId });
    await recorder.run({ scenario: exportOf(count), contender: ours.name, repetition }, measure);
  }
}

async function otherExports(
  bench: Bench,
  { scenarios, rows, python }: Options,
  repetition: number,
  recorder: Recorder,
): Promise<void> {
  if (!scenarios.includes('export')) return;
  for (const count of rows) {
    const scenario = exportOf(count);
    await recorder.run({ scenario, contender: 'fetch loop', repetition }, () => exportWithFetchLoop(bench, count));
    if (python === undefined) continue;
    await recorder.run({ scenario, contender: 'dlt', repetition }, () => exportWithDlt(bench, count, python));
  }
}

function exportOf(rows: number): string {
  return `export of ${rows.toLocaleString('en')} rows`;
}
