/** The cost of a further poll: steady minus drain, per poll of difference; CPU without that of idle processes. */
import type { Figures, Measured } from '../figures.js';

/** Needs the drain and the steady scenario of the same contender and repetition. */
export function furtherPoll(drain: Measured, steady: Measured): Measured {
  const polls = figure(steady, 'reads per job') - figure(drain, 'reads per job');
  const perPoll = (of: (measured: Measured) => number | null) => {
    const [more, less] = [of(steady), of(drain)];
    return more === null || less === null ? null : (more - less) / polls;
  };
  const figures: Figures = {
    'CPU ms': perPoll(busyCpuMs),
    'history events': perPoll((measured) => measured.figures['history events per job'] ?? null),
    'history bytes': perPoll((measured) => measured.figures['history bytes per job'] ?? null),
    'billable actions': perPoll((measured) => measured.figures['billable actions per job'] ?? null),
  };
  return { ...steady, scenario: 'a further poll', figures };
}

function busyCpuMs(measured: Measured): number {
  const jobs = (figure(measured, 'jobs per second') * figure(measured, 'wall ms')) / 1_000;
  const idleMs = (figure(measured, 'idle CPU ms per second') * figure(measured, 'wall ms')) / 1_000;
  return figure(measured, 'CPU ms per job') - idleMs / jobs;
}

function figure({ figures }: Measured, name: string): number {
  return figures[name] ?? NaN;
}
