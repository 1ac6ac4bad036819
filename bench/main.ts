/** `npm run bench`: our worker against a plain Temporal implementation of the same work, on the same server. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { OwnedProcess } from '../src/embedded/child-process.js';
import { baseline } from './baseline.js';
import type { Bench, Contender } from './contender.js';
import type { Figures, Measured } from './figures.js';
import { runJobs } from './jobs-run.js';
import { readOptions, USAGE, type Options } from './options.js';
import { ours } from './ours.js';
import { burst } from './scenarios/burst.js';
import { runCrowd } from './scenarios/crowd.js';
import { drain } from './scenarios/drain.js';
import { exportWithDlt, exportWithFetchLoop, exportWithOurs } from './scenarios/export.js';
import { furtherPoll } from './scenarios/further-poll.js';
import { steady } from './scenarios/steady.js';
import { tenMinutes } from './scenarios/ten-minutes.js';
import { tables } from './table.js';
import { openTemporal } from './temporal.js';
import { startUpstream } from './upstream.js';

const RESULTS = fileURLToPath(new URL('./results/', import.meta.url));
const STOP_GRACE_MS = 30_000;
/** Makes compilers and connections warm. */
const WARM_UP_JOBS = 10;

async function main(options: Options): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'agent-jobs-bench-'));
  const upstream = await startUpstream(folder);
  const measured: Measured[] = [];
  const file = options.out ?? join(RESULTS, `${new Date().toISOString().replace(/[:.]/g, '-')}.json`);
  try {
    const temporal = await openTemporal(folder, options.server);
    const bench: Bench = { folder, temporal, upstream };
    try {
      for (let repetition = 1; repetition <= options.reps; repetition++) {
        await repeat(bench, options, repetition, measured);
        save(file, options, measured); // what an interruption leaves
      }
    } finally {
      await temporal.stop();
    }
  } finally {
    await upstream.stop();
    rmSync(folder, { recursive: true, force: true });
  }
  console.log(`Measured on ${save(file, options, measured)}; median (least–most).\n`);
  console.log(tables(measured));
  console.error(`JSON: ${file}`);
}

/** Each contender in turn, the first one last in every second repetition. */
async function repeat(bench: Bench, options: Options, repetition: number, measured: Measured[]): Promise<void> {
  const both = repetition % 2 === 1 ? [ours, baseline] : [baseline, ours];
  const turns = both.filter(({ name }) => options.only === undefined || options.only === name);
  for (const contender of turns) {
    const worker = await contender.startWorker(bench);
    try {
      const record = recorder(contender.name, repetition, measured);
      await runJobs(bench, contender, worker, drain(WARM_UP_JOBS, tag('warm', repetition)));
      await jobScenarios(bench, contender, worker, options, record);
      if (contender === ours && options.scenarios.includes('export')) {
        await ourExports(bench, worker, options, record, repetition);
      }
    } finally {
      await worker.stop(STOP_GRACE_MS);
    }
  }
  addFurtherPoll(measured, repetition);
  if (options.scenarios.includes('export')) await otherExports(bench, options, repetition, measured);
}

type Record = (scenario: string, run: () => Promise<Figures>) => Promise<void>;

function recorder(contender: string, repetition: number, measured: Measured[]): Record {
  return async (scenario, run) => {
    const load = loadavg()[0] ?? NaN;
    const startedAt = Date.now();
    const figures = await run();
    measured.push({ scenario, contender, repetition, load, figures });
    const seconds = Math.round((Date.now() - startedAt) / 1_000);
    console.error(`${contender}, ${scenario}, repetition ${repetition}: ${seconds} s, load ${load.toFixed(1)}`);
  };
}

async function jobScenarios(
  bench: Bench,
  contender: Contender,
  worker: OwnedProcess,
  { scenarios, n, steady: few, steadyMs, ten, tenMs, crowd, lookMs }: Options,
  record: Record,
): Promise<void> {
  const unique = (name: string) => tag(name, Date.now());
  const jobs = {
    drain: drain(n, unique('drain')),
    steady: steady(few, unique('steady'), steadyMs),
    burst: burst(n, unique('burst')),
    tenMinutes: tenMinutes(ten, unique('ten'), tenMs),
  };
  for (const name of ['drain', 'steady', 'burst', 'tenMinutes'] as const) {
    if (scenarios.includes(name)) await record(name, () => runJobs(bench, contender, worker, jobs[name]));
  }
  if (scenarios.includes('crowd')) {
    await record('crowd', () => runCrowd(bench, contender, worker, { tag: unique('crowd'), n: crowd, lookMs }));
  }
}

async function ourExports(
  bench: Bench,
  worker: OwnedProcess,
  { rows }: Options,
  record: Record,
  repetition: number,
): Promise<void> {
  for (const count of rows) {
    const projectId = `bench-${count}-${repetition}`;
    await record(exportOf(count), () => exportWithOurs(bench, worker, { rows: count, projectId }));
  }
}

async function otherExports(
  bench: Bench,
  { rows, python }: Options,
  repetition: number,
  measured: Measured[],
): Promise<void> {
  for (const count of rows) {
    await recorder('fetch loop', repetition, measured)(exportOf(count), () => exportWithFetchLoop(bench, count));
    if (python === undefined) continue;
    await recorder('dlt', repetition, measured)(exportOf(count), () => exportWithDlt(bench, count, python));
  }
}

function exportOf(rows: number): string {
  return `export of ${rows.toLocaleString('en')} rows`;
}

function addFurtherPoll(measured: Measured[], repetition: number): void {
  for (const { name } of [ours, baseline]) {
    const find = (scenario: string) =>
      measured.find((one) => one.scenario === scenario && one.contender === name && one.repetition === repetition);
    const [few, many] = [find('drain'), find('steady')];
    if (few && many) measured.push(furtherPoll(few, many));
  }
}

function tag(name: string, number: number): string {
  return `${name}-${process.pid}-${number}`;
}

/** Writes all that was measured so far, and tells on what. */
function save(file: string, { server }: Options, measured: Measured[]): string {
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}`;
  const temporal = server ? 'a given server' : 'the dev server';
  mkdirSync(dirname(file), { recursive: true });
  const run = { at: new Date().toISOString(), node: process.version, machine, temporal, measured };
  writeFileSync(file, `${JSON.stringify(run, null, 2)}\n`);
  return `${machine}, Node ${process.version}, ${temporal}`;
}

const options = readOptions(process.argv.slice(2));
if (options === null) console.log(USAGE);
else await main(options);
// The Temporal client's connections may linger.
process.exit();
