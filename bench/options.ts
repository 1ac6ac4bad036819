/** The command line of `npm run bench`. */
import { parseArgs } from 'node:util';
import type { GivenServer } from './temporal.js';

export const SCENARIOS = ['drain', 'steady', 'burst', 'tenMinutes', 'crowd', 'export'] as const;
export type Scenario = (typeof SCENARIOS)[number];

/** Not part of a usual run. */
const SLOW: readonly Scenario[] = ['tenMinutes', 'crowd'];

export const USAGE = `Usage: npm run bench -- [options]

  --scenarios a,b      of ${SCENARIOS.join(', ')}; default: all but tenMinutes and crowd
  --only NAME          one contender alone: agent-jobs or baseline
  --reps N             repetitions, default 3
  --n N                jobs of drain and burst, default 300
  --steady N           jobs of steady, default 40
  --ten N              jobs of tenMinutes, default 5
  --crowd N            jobs of crowd, default 2000
  --look N             how long the crowd is watched, in seconds, default 120
  --rows N,M           rows of export, default 100000,1000000
  --python PATH        a Python that has dlt, for export
  --quick              a smoke run: few jobs, few rows, one repetition
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
  reps: number;
  n: number;
  steady: number;
  /** Steady jobs stay active for so long, in milliseconds. */
  steadyMs: number;
  /** Jobs of ten minutes, and how long they take, in milliseconds. */
  ten: number;
  tenMs: number;
  crowd: number;
  lookMs: number;
  rows: number[];
  python: string | undefined;
  server: GivenServer | undefined;
  out: string | undefined;
}

const FLAGS = {
  scenarios: { type: 'string' },
  reps: { type: 'string' },
  n: { type: 'string' },
  steady: { type: 'string' },
  only: { type: 'string' },
  ten: { type: 'string' },
  crowd: { type: 'string' },
  look: { type: 'string' },
  rows: { type: 'string' },
  python: { type: 'string' },
  quick: { type: 'boolean', default: false },
  out: { type: 'string' },
  address: { type: 'string' },
  namespace: { type: 'string' },
  'metrics-url': { type: 'string' },
  'server-pids': { type: 'string' },
  help: { type: 'boolean' },
} as const;

/** What the command line asks for; null where it asks for help. Throws where it can't be understood. */
export function readOptions(args: string[]): Options | null {
  const { values } = parseArgs({ args, options: FLAGS });
  if (values.help) return null;
  const size = (full: number, quick: number, text: string | undefined) =>
    text === undefined ? (values.quick ? quick : full) : positive(text);
  return {
    scenarios: scenarios(values.scenarios, values.quick),
    reps: size(3, 1, values.reps),
    n: size(300, 5, values.n),
    steady: size(40, 3, values.steady),
    steadyMs: values.quick ? 9_000 : 30_000,
    only: values.only,
    ten: size(5, 2, values.ten),
    tenMs: values.quick ? 20_000 : 600_000,
    crowd: size(2_000, 10, values.crowd),
    lookMs: 1_000 * size(120, 5, values.look),
    rows: values.rows?.split(',').map(positive) ?? (values.quick ? [5_000] : [100_000, 1_000_000]),
    python: values.python,
    server: givenServer(values),
    out: values.out,
  };
}

function scenarios(text: string | undefined, isQuick: boolean): readonly Scenario[] {
  if (text === undefined) return SCENARIOS.filter((name) => isQuick || !SLOW.includes(name));
  return text.split(',').map((name) => {
    const known = SCENARIOS.find((scenario) => scenario === name);
    if (known === undefined) throw new Error(`no scenario "${name}": ${SCENARIOS.join(', ')}`);
    return known;
  });
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
