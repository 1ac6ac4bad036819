/**
 * Draws what the simulation recorded: `tsx test/queue-simulation/plot.ts <folder for the picture> <record.json>`. The
 * record must hold the scenarios `sliding`, `set` and `herd`.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { COLORS, draw } from '../../bench/picture.js';
import type { CrowdResult } from './crowd.js';

type Point = [hours: number, created: number];

const PER_HOUR = 100;
const NAMES = { queue: 'the queue, budget learned', set: 'the queue, budget set', herd: 'release 0.2.0, no queue' };
const BUDGET = { name: 'most that the budget allows', color: '#16a34a' };
const SET_COLOR = '#7c3aed';

const hoursOf = (minutes: number) => Math.round((minutes / 60) * 10_000) / 10_000;

/** How many were created by each create. */
function created({ createdAt }: CrowdResult): Point[] {
  return createdAt.map((minutes, index) => [hoursOf(minutes), index + 1]);
}

/** Each answer 429, at the height of what was created by then. */
function throttled({ createdAt, throttledAt }: CrowdResult): Point[] {
  return throttledAt.map((at) => [hoursOf(at), createdAt.filter((minutes) => minutes <= at).length]);
}

function line(name: string, data: Point[], color: string, type: 'solid' | 'dashed' = 'solid') {
  const style = { lineStyle: { color, type, width: 2 }, itemStyle: { color } };
  return { name, type: 'line', step: 'end', showSymbol: false, data, ...style };
}

function marks(name: string, data: Point[], color: string) {
  return { name: `429, ${name}`, type: 'scatter', symbol: 'diamond', symbolSize: 7, data, itemStyle: { color } };
}

const [folder, file] = process.argv.slice(2);
if (folder === undefined || file === undefined) throw new Error('name the folder for the picture and the record');
const { sliding, set, herd } = JSON.parse(readFileSync(file, 'utf8')) as Record<string, CrowdResult>;
if (!sliding || !set || !herd) throw new Error('the record must hold the scenarios sliding, set and herd');
const longest = Math.ceil(Math.max(...[sliding, set, herd].flatMap(created).map(([hours]) => hours)) * 2) / 2;
const budget = Array.from({ length: Math.ceil(longest) + 1 }, (_, hour): Point => [
  Math.min(hour, longest),
  Math.min((hour + 1) * PER_HOUR, sliding.jobs),
]);
const [ours = '', theirs = ''] = COLORS;
draw(
  {
    title: { text: `${sliding.jobs} creates at once, ${PER_HOUR} an hour allowed`, left: 'center' },
    grid: { left: 70, right: 40, top: 50, bottom: 100 },
    xAxis: { type: 'value', name: 'hours', nameLocation: 'middle', nameGap: 25, min: 0, max: longest },
    yAxis: { type: 'value', name: 'created', min: 0 },
    series: [
      line(BUDGET.name, budget, BUDGET.color, 'dashed'),
      line(NAMES.herd, created(herd), theirs),
      line(NAMES.set, created(set), SET_COLOR),
      line(NAMES.queue, created(sliding), ours),
      marks('release 0.2.0', throttled(herd), '#dc2626'),
      marks('the queue', throttled(sliding), '#ea580c'),
    ],
  },
  join(folder, 'queue.svg'),
);
