/** The command line of `npm run bench`. */
import { parseArgs } from 'node:util';
import type { GivenServer } from './temporal.js';

const SCENARIOS = ['drain', 'steady', 'burst', 'followUp', 'export', 'tenMinutes', 'crowd', 'killed'] as const;
export type Scenario = (typeof SCENARIOS)[number];
/** What our worker is told of the upstream's budget. */
export type Budget = 'unlimited' | 'unknown';

export const USAGE = `Usage: npm run bench -- [options]

  --scenarios a,b      of ${SCENARIOS.join(', ')}; default: all of them
  --only NAME          one contender alone: agent-jobs or baseline
  --budget SET         what our worker is told of the upstream's budget: unlimited, which it is (default), or unknown
  --reps N             repetitions of drain, steady, burst and export, default 3
  --n N                jobs of drain and burst, default 300
  --steady N           jobs of steady, default 40
  --ten N              jobs of tenMinutes, default 5
  --crowd N,M          sizes of the crowd, one after the other, default 500,2000,4000,8000
  --pace N             jobs of the crowd that are started in a second, default as many as go
  --killed N           jobs of killed, default 200
  --look N             how long each size is watched, in seconds, default 60
  --rows N,M           rows of export, default 100000,1000000
  --python PATH        a Python that has dlt, for export
  --quick              a smoke run: few jobs, few rows, one repetition
  --profiles FOLDER    the workers leave V8 CPU profiles there, one per thread
  --out FILE           where the JSON goes, default bench/results/<time>.json

A server that runs already, for example a release server on PostgreSQL (default: the dev server):

  --address HOST:PORT  its front end
  --namespace NAME     default: default
  --metrics-url URL    its Prometheus metrics, for billable actions
  --server-pids N,M    its processes and its database's, for their CPU`;

export interface Options {
  /** Undefined: all of them. */
  only: string | undefined;
  scenarios: readonly Scenario[];
  budget: Budget;
  reps: number;
  n: number;
  steady: number;
  /** Steady jobs stay active for so long, in milliseconds. */
  steadyMs: number;
  followUps: number;
  /** Jobs of ten minutes, and how long they take, in milliseconds. */
  ten: number;
  tenMs: number;
  /** Jobs that two workers share; one worker is killed. */
  killed: number;
  /** Sizes, the smallest first. */
  crowd: number[];
  /** Starts of the crowd a second; undefined: as many as go. */
  pace: number | undefined;
  lookMs: number;
  rows: number[];
  python: string | undefined;
  server: GivenServer | undefined;
  profiles: string | undefined;
  out: string | undefined;
}

const FLAGS = {
  scenarios: { type: 'string' },
  reps: { type: 'string' },
  n: { type: 'string' },
  steady: { type: 'string' },
  only: { type: 'string' },
  budget: { type: 'string', default: 'unlimited' },
  ten: { type: 'string' },
  crowd: { type: 'string' },
  pace: { type: 'string' },
  killed: { type: 'string' },
  look: { type: 'string' },
  rows: { type: 'string' },
  python: { type: 'string' },
  quick: { type: 'boolean', default: false },
  profiles: { type: 'string' },
  out: { type: 'string' },
  address: { type: 'string' },
  namespace: { type: 'string' },
  'metrics-url': { type: 'string' },
  'server-pids': { type: 'string' },
  help: { type: 'boolean' },
} as const;

/** Parses the command line; null where it asks for help. Throws for an unknown option or value. */
export function readOptions(args: string[]): Options | null {
  const { values } = parseArgs({ args, options: FLAGS });
  if (values.help) return null;
  const size = (full: number, quick: number, text: string | undefined) =>
    text === undefined ? (values.quick ? quick : full) : positive(text);
  const sizes = (full: number[], quick: number[], text: string | undefined) =>
    text?.split(',').map(positive) ?? (values.quick ? quick : full);
  return {
    scenarios: scenarios(values.scenarios),
    budget: budget(values.budget),
    reps: size(3, 1, values.reps),
    n: size(300, 5, values.n),
    steady: size(40, 3, values.steady),
    steadyMs: values.quick ? 9_000 : 30_000,
    followUps: values.quick ? 2 : 10,
    only: values.only,
    ten: size(5, 2, values.ten),
    tenMs: values.quick ? 20_000 : 600_000,
    crowd: sizes([500, 2_000, 4_000, 8_000], [10, 20], values.crowd).toSorted((a, b) => a - b),
    pace: values.pace === undefined ? undefined : positive(values.pace),
    killed: size(200, 10, values.killed),
    lookMs: 1_000 * size(60, 5, values.look),
    rows: sizes([100_000, 1_000_000], [5_000], values.rows),
    python: values.python,
    server: givenServer(values),
    profiles: values.profiles,
    out: values.out,
  };
}

function scenarios(text: string | undefined): readonly Scenario[] {
  if (text === undefined) return SCENARIOS;
  return text.split(',').map((name) => {
    const known = SCENARIOS.find((scenario) => scenario === name);
    if (known === undefined) throw new Error(`no scenario "${name}": ${SCENARIOS.join(', ')}`);
    return known;
  });
}

function budget(text: string): Budget {
  if (text === 'unlimited' || text === 'unknown') return text;
  throw new Error(`--budget is "${text}": unlimited or unknown`);
}

function givenServer(values: Partial<Record<string, string | boolean>>): GivenServer | undefined {
  const { address, namespace, 'metrics-url': metricsUrl, 'server-pids': pids } = values;
  if (typeof address !== 'string') return undefined;
  return {
    address,
    namespace: typeof namespace === 'string' ? namespace : 'default',
    metricsUrl: typeof metricsUrl === 'string' ? metricsUrl : undefined,
    pids: typeof pids === 'string' ? pids.split(',').map(positive) : [],
  };
}

function positive(text: string): number {
  if (!/^[1-9]\d*$/.test(text)) throw new Error(`"${text}" must be a whole number above 0`);
  return Number(text);
}
