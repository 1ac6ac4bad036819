/** The most important figures, ours beside the baseline's, with their targets. */
import { baseline } from './baseline.js';
import { median, type Measured } from './figures.js';
import { ours } from './ours.js';
import { show } from './table.js';

interface Row {
  measure: string;
  /** In the order of sizes; the last one measured counts. */
  scenario: string | RegExp;
  figure: string;
  reach: string;
}

const CROWD = /^crowd of /;
const ROWS: readonly Row[] = [
  { measure: 'history events a further poll', scenario: 'a further poll', figure: 'history events', reach: '≤ 0.2' },
  {
    measure: 'billable actions a further poll',
    scenario: 'a further poll',
    figure: 'billable actions',
    reach: '≤ 1.1',
  },
  {
    measure: 'CPU ms of a further poll, all processes, waits of 2 s',
    scenario: 'a further poll',
    figure: 'CPU ms',
    reach: '≤ 0.45 ×',
  },
  {
    measure: 'billable actions, job of 10 minutes with a follow-up, default polling',
    scenario: 'ten minutes',
    figure: 'billable actions per job',
    reach: '≤ 0.6 ×',
  },
  { measure: 'history events, job of one poll', scenario: 'drain', figure: 'history events per job', reach: '≤ 22' },
  {
    measure: 'history events, with a follow-up in the middle of a wait',
    scenario: 'a follow-up in a wait',
    figure: 'history events per job',
    reach: '≤ 40',
  },
  {
    measure: 'history events, with a follow-up at the start',
    scenario: 'a follow-up at the start',
    figure: 'history events per job',
    reach: '≤ 31',
  },
  { measure: 'CPU ms per job, drain', scenario: 'drain', figure: 'CPU ms per job', reach: '≤ 1.0 ×' },
  { measure: 'jobs per second, drain', scenario: 'drain', figure: 'jobs per second', reach: '≥ 1.0 ×' },
  { measure: 'detection p50 ms, steady', scenario: 'steady', figure: 'detection p50 ms', reach: '≤ 1 ×, ≤ 3,000' },
  {
    measure: 'jobs open at once, waits of 60 s, within 80 % of the CPU (computed from the largest crowd)',
    scenario: CROWD,
    figure: 'jobs open at 80 % of the CPU (computed)',
    reach: '≥ 20,000',
  },
  {
    measure: 'CPU ms of a further poll, all processes, waits of 60 s',
    scenario: CROWD,
    figure: 'CPU ms per read',
    reach: '≤ 0.12 ×',
  },
  {
    measure: 'billable actions a further poll, waits of 60 s',
    scenario: CROWD,
    figure: 'billable actions per read',
    reach: '≤ 0.25',
  },
  { measure: 'open jobs of the largest crowd', scenario: CROWD, figure: 'open jobs', reach: '8,000' },
  { measure: 'share of the CPU it takes', scenario: CROWD, figure: 'share of all cores', reach: '≤ 0.8' },
  { measure: 'worker memory at it, MiB', scenario: CROWD, figure: 'worker peak memory MiB', reach: '≤ 700' },
];

/** A Markdown table; rows of scenarios that did not run are left out. */
export function summary(measured: readonly Measured[]): string {
  const rows = ROWS.map((row) => ({
    ...row,
    own: value(measured, ours.name, row),
    base: value(measured, baseline.name, row),
  }))
    .filter(({ own, base }) => own !== undefined || base !== undefined)
    .map(
      ({ measure, reach, own, base }) => `| ${[measure, text(base), text(own), ratio(own, base), reach].join(' | ')} |`,
    );
  return [
    '| measure | baseline | ours | ours ÷ baseline | to reach |',
    '| --- | --- | --- | --- | --- |',
    ...rows,
    '',
  ].join('\n');
}

function value(measured: readonly Measured[], contender: string, { scenario, figure }: Row): number | undefined {
  const fits = (name: string) => (typeof scenario === 'string' ? name === scenario : scenario.test(name));
  const own = measured.filter((one) => one.contender === contender && fits(one.scenario));
  const last = own.at(-1)?.scenario;
  const values = own.filter((one) => one.scenario === last).map(({ figures }) => figures[figure]);
  const known = values.filter((one): one is number => one != null && !Number.isNaN(one));
  return known.length === 0 ? undefined : median(known);
}

function text(value: number | undefined): string {
  return value === undefined ? '–' : show(value);
}

function ratio(own: number | undefined, base: number | undefined): string {
  return own === undefined || base === undefined || base === 0 ? '–' : `${(own / base).toFixed(2)} ×`;
}
