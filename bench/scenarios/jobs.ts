/** What the jobs of each scenario do, and the figures that two scenarios give together. */
import type { Figures, Measured } from '../figures.js';
import type { JobsWork } from '../jobs-run.js';
import type { Options } from '../options.js';

const every = (ms: number) => ({ min: ms, max: ms, ratio: 0 });

/** Jobs that start at once and end almost at once: throughput, and the cost of a job with one poll. */
export function drain({ n }: Pick<Options, 'n'>): JobsWork {
  // A job that is done in its create's answer would not be polled at all.
  return { name: 'drain', n, polling: every(1_000), activeMs: 10 };
}

/** Few jobs with many polls, one every 2 seconds: latency without saturation, and the cost of a further poll. */
export function steady({ steady: n, steadyMs: activeMs }: Options): JobsWork {
  return { name: 'steady', n, polling: every(2_000), activeMs };
}

/** One poll, then a follow-up in the middle of the next wait; the read after it shows the end. */
export function followUpInWait({ followUps: n }: Options): JobsWork {
  return { name: 'a follow-up in a wait', n, polling: every(10_000), activeMs: 1_500, followUpAfterMs: 3_000 };
}

/** A follow-up right after the start. */
export function followUpAtStart({ followUps: n }: Options): JobsWork {
  return { name: 'a follow-up at the start', n, polling: every(1_000), activeMs: 10, followUpAfterMs: 0 };
}

/** A typical job: ten minutes, the default polling plan, one follow-up half way. */
export function tenMinutes({ ten: n, tenMs: activeMs }: Options): JobsWork {
  const polling = { min: 2_000, max: 60_000, ratio: 0.1 };
  return { name: 'ten minutes', n, polling, activeMs, followUpAfterMs: activeMs / 2 };
}

/** Figures that another contender beside it does not change: no times, no CPU. */
export function countsOnly(figures: Figures): Figures {
  return Object.fromEntries(Object.entries(figures).filter(([name]) => /^(reads|history|billable)/.test(name)));
}

/** The cost of a further poll: steady minus drain, per poll of difference; CPU without that of idle processes. */
export function furtherPoll(few: Measured, many: Measured): Measured {
  const polls = figure(many, 'reads per job') - figure(few, 'reads per job');
  const perPoll = (of: (measured: Measured) => number) => (of(many) - of(few)) / polls;
  const figures: Figures = {
    'CPU ms': perPoll(busyCpuMs),
    'history events': perPoll((measured) => figure(measured, 'history events per job')),
    'history bytes': perPoll((measured) => figure(measured, 'history bytes per job')),
    'billable actions': perPoll((measured) => figure(measured, 'billable actions per job')),
  };
  return { ...many, scenario: 'a further poll', figures };
}

function busyCpuMs(measured: Measured): number {
  const jobs = (figure(measured, 'jobs per second') * figure(measured, 'wall ms')) / 1_000;
  const idleMs = (figure(measured, 'idle CPU ms per second') * figure(measured, 'wall ms')) / 1_000;
  return figure(measured, 'CPU ms per job') - idleMs / jobs;
}

function figure({ figures }: Measured, name: string): number {
  return figures[name] ?? NaN;
}
