/** Draws what saved runs measured: `tsx bench/plot.ts <folder for the pictures> <run.json>...` */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { EChartsCoreOption } from 'echarts/dist/echarts.esm.min.mjs';
import { COLORS, draw } from './picture.js';
import { median, type Measured } from './figures.js';

/** Polls of a job, for which the cost is drawn. */
const POLLS = [1, 2, 3, 5, 10, 16, 30, 60, 100];

function contenders(measured: readonly Measured[]): string[] {
  return [...new Set(measured.map(({ contender }) => contender))];
}

/** The median of the repetitions, to two digits after the point. */
function figure(measured: readonly Measured[], contender: string, name: string): number {
  const values = measured.filter((one) => one.contender === contender).map(({ figures }) => figures[name] ?? NaN);
  return round(median(values));
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

/** A job's whole cost divided by its polls: that of a job of one poll, and of each further one. */
function costPerPoll(drains: readonly Measured[], further: readonly Measured[]): EChartsCoreOption {
  return {
    title: { text: 'CPU per poll of all processes, by polls of a job', left: 'center' },
    xAxis: { type: 'log', name: 'polls of the job', nameLocation: 'middle', nameGap: 25 },
    yAxis: { type: 'value', name: 'ms', min: 0 },
    series: contenders(further).map((name) => {
      const [first, next] = [figure(drains, name, 'CPU ms per job'), figure(further, name, 'CPU ms')];
      return { name, type: 'line', data: POLLS.map((polls) => [polls, round((first + (polls - 1) * next) / polls)]) };
    }),
  };
}

function openJobs(crowds: readonly Measured[]): EChartsCoreOption {
  const names = contenders(crowds);
  const line = (name: string, figureName: string, extra: object) => ({
    type: 'line',
    data: bySize(crowds, name).map(([size, measured]) => [size, figure(measured, name, figureName)]),
    ...extra,
  });
  return {
    title: { text: 'CPU and worker memory by open jobs, waits of 60 s', left: 'center' },
    xAxis: { type: 'value', name: 'open jobs', nameLocation: 'middle', nameGap: 25 },
    yAxis: [
      { type: 'value', name: 'cores, all processes', min: 0 },
      { type: 'value', name: 'MiB of the worker', min: 0, splitLine: { show: false } },
    ],
    series: [
      ...names.map((name, i) => line(name, 'cores used', { name: `${name}, CPU`, itemStyle: { color: COLORS[i] } })),
      ...names.map((name, i) =>
        line(name, 'worker peak memory MiB', {
          name: `${name}, memory`,
          yAxisIndex: 1,
          lineStyle: { type: 'dashed' },
          itemStyle: { color: COLORS[i] },
        }),
      ),
    ],
  };
}

function bySize(crowds: readonly Measured[], contender: string): [number, Measured[]][] {
  const own = crowds.filter((one) => one.contender === contender);
  const sizes = [...new Set(own.map(({ figures }) => figures['open jobs'] ?? 0))].toSorted((a, b) => a - b);
  return sizes.map((size) => [size, own.filter(({ figures }) => figures['open jobs'] === size)]);
}

const [folder, ...files] = process.argv.slice(2);
if (folder === undefined || files.length === 0) throw new Error('name the folder for the pictures and the runs');
const all = files.flatMap((file) => (JSON.parse(readFileSync(file, 'utf8')) as { measured: Measured[] }).measured);
const of = (scenario: string) => all.filter((one) => one.scenario === scenario);
const crowds = all.filter(({ scenario }) => scenario.startsWith('crowd of '));
if (of('a further poll').length > 0)
  draw(costPerPoll(of('drain'), of('a further poll')), join(folder, 'cost-per-poll.svg'));
if (crowds.length > 0) draw(openJobs(crowds), join(folder, 'open-jobs.svg'));
