/** Draws what saved runs measured: `tsx bench/plot.ts <folder for the pictures> <run.json>...` */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { init, type EChartsCoreOption } from 'echarts/dist/echarts.esm.min.mjs';
import { median, type Measured } from './figures.js';

const SIZE = { width: 760, height: 320 };
const COLORS = ['#2563eb', '#9ca3af'];
const FURTHER = { scenario: 'a further poll', figures: ['CPU ms', 'history events', 'billable actions'] };

function draw(option: EChartsCoreOption, file: string): void {
  const chart = init(null, null, { renderer: 'svg', ssr: true, ...SIZE });
  chart.setOption({ animation: false, backgroundColor: '#ffffff', color: COLORS, legend: { bottom: 0 }, ...option });
  writeFileSync(file, chart.renderToSVGString());
  chart.dispose();
  console.log(file);
}

function contenders(measured: readonly Measured[]): string[] {
  return [...new Set(measured.map(({ contender }) => contender))];
}

/** The median of the repetitions, to two digits after the point. */
function figure(measured: readonly Measured[], contender: string, name: string): number {
  const values = measured.filter((one) => one.contender === contender).map(({ figures }) => figures[name] ?? NaN);
  return Math.round(median(values) * 100) / 100;
}

function furtherPoll(measured: readonly Measured[]): EChartsCoreOption {
  return {
    title: { text: 'A further poll costs', left: 'center' },
    xAxis: { type: 'category', data: FURTHER.figures },
    yAxis: { type: 'value' },
    series: contenders(measured).map((name) => ({
      name,
      type: 'bar',
      label: { show: true, position: 'top' },
      data: FURTHER.figures.map((label) => figure(measured, name, label)),
    })),
  };
}

function crowd(measured: readonly Measured[]): EChartsCoreOption {
  return {
    title: { text: 'CPU of all processes by open jobs, waits of 60 s', left: 'center' },
    xAxis: { type: 'value', name: 'open jobs', nameLocation: 'middle', nameGap: 25 },
    yAxis: { type: 'value', name: 'cores' },
    series: contenders(measured).map((name) => ({ name, type: 'line', data: crowdLine(measured, name) })),
  };
}

/** From no job to the sizes measured. */
function crowdLine(measured: readonly Measured[], contender: string): [number, number][] {
  const own = measured.filter((one) => one.contender === contender);
  const sizes = [...new Set(own.map(({ figures }) => figures['open jobs'] ?? 0))].toSorted((a, b) => a - b);
  const at = (n: number) => own.filter(({ figures }) => figures['open jobs'] === n);
  const points = sizes.map((n): [number, number] => [n, figure(at(n), contender, 'cores used')]);
  return [[0, figure(own, contender, 'cores used before')], ...points];
}

const [folder, ...files] = process.argv.slice(2);
if (folder === undefined || files.length === 0) throw new Error('name the folder for the pictures and the runs');
const all = files.flatMap((file) => (JSON.parse(readFileSync(file, 'utf8')) as { measured: Measured[] }).measured);
const further = all.filter(({ scenario }) => scenario === FURTHER.scenario);
const crowds = all.filter(({ scenario }) => scenario === 'crowd');
if (further.length > 0) draw(furtherPoll(further), join(folder, 'further-poll.svg'));
if (crowds.length > 0) draw(crowd(crowds), join(folder, 'open-jobs.svg'));
