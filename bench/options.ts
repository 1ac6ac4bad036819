/** The command line of `npm run bench`. */
import { parseArgs } from 'node:util';

const SCENARIOS = ['drain', 'steady', 'export', 'tenMinutes', 'crowd'] as const;
/** What our worker knows of the upstream's budget. */
export type Budget = 'unlimited' | 'unknown';

export const USAGE = `Usage: npm run bench -- [options]

  --scenarios a,b      of ${SCENARIOS.join(', ')}; default: all of them
  --only NAME          one contender alone: agent-jobs or baseline
  --budget SET         what our worker knows of the upstream's budget: unlimited, which it is (default), or unknown
  --reps N             repetitions of drain, steady and export, default 3
  --n N                jobs of drain, default 300
  --crowd N,M          sizes of the crowd, one after the other, default 500,2000,4000,8000
  --look N             how long each size is watched, in seconds, default 60
  --rows N,M           rows of export, default 100000,1000000
  --python PATH        a Python that has dlt, for export
  --quick              a smoke run: few jobs, few rows, one repetition
  --out FILE           where the JSON goes, default bench/results/<time>.json`;

const FULL = {
  reps: 3,
  n: 300,
  steady: 40,
  steadyMs: 30_000,
  ten: 5,
  tenMs: 600_000,
  crowd: [500, 2_000, 4_000, 8_000],
  look: 60,
  rows: [100_000, 1_000_000],
};
const QUICK: typeof FULL = {
  reps: 1,
  n: 5,
  steady: 3,
  steadyMs: 9_000,
  ten: 2,
  tenMs: 20_000,
  crowd: [10, 20],
  look: 5,
  rows: [5_000],
};

/** Sizes (of jobs, rows and times), and what is measured with them. */
export interface Options extends Readonly<typeof FULL> {
  /** Undefined: all of them. */
  only: string | undefined;
  scenarios: readonly (typeof SCENARIOS)[number][];
  budget: Budget;
  python: string | undefined;
  out: string | undefined;
}

const TEXT = { type: 'string' } as const;
const FLAGS = {
  scenarios: TEXT,
  only: TEXT,
  budget: TEXT,
  reps: TEXT,
  n: TEXT,
  crowd: TEXT,
  look: TEXT,
  rows: TEXT,
  python: TEXT,
  out: TEXT,
  quick: { type: 'boolean' },
  help: { type: 'boolean' },
} as const;

/** Parses the command line; null if it asks for help. Throws for an unknown option or value. */
export function readOptions(args: string[]): Options | null {
  const { values } = parseArgs({ args, options: FLAGS });
  if (values.help) return null;
  const { reps, n, look, crowd, rows, budget = 'unlimited' } = values;
  return {
    ...(values.quick ? QUICK : FULL),
    ...(reps && { reps: positive(reps) }),
    ...(n && { n: positive(n) }),
    ...(look && { look: positive(look) }),
    ...(crowd && { crowd: crowd.split(',').map(positive) }),
    ...(rows && { rows: rows.split(',').map(positive) }),
    scenarios: values.scenarios?.split(',').map((name) => oneOf(SCENARIOS, name)) ?? SCENARIOS,
    budget: oneOf(['unlimited', 'unknown'], budget),
    only: values.only,
    python: values.python,
    out: values.out,
  };
}

function oneOf<Name extends string>(names: readonly Name[], text: string): Name {
  const name = names.find((one) => one === text);
  if (name === undefined) throw new Error(`"${text}" is none of ${names.join(', ')}`);
  return name;
}

function positive(text: string): number {
  if (!/^[1-9]\d*$/.test(text)) throw new Error(`"${text}" must be a whole number above 0`);
  return Number(text);
}
