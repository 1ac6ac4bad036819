/** The picture of what the simulation recorded: creates over time against the budget, and below it the answers 429. */
import { join } from 'node:path';
import { COLORS, draw } from '../../bench/picture.js';
import type { CrowdFigures } from './figures.js';

type Point = [hours: number, height: number];

const PER_HOUR = 100;
const SIZE = { width: 760, height: 480 };
const [OURS = ''] = COLORS;
const RELEASE_COLOR = '#6b7280';
const BUDGET = '#16a34a';
const RELEASE = 'release 0.2.0, no queue';
const QUEUE = 'the queue';
/** The two parts of the picture, in pixels. */
const CREATED = { left: 70, right: 30, top: 50, height: 230 };
const REFUSED = { left: 70, right: 30, top: 345, height: 60 };

const hoursOf = (minutes: number) => Math.round((minutes / 60) * 10_000) / 10_000;

/** Draws `queue.svg` into a folder; both are of the same jobs. */
export function drawQueue(folder: string, queue: CrowdFigures, release: CrowdFigures): void {
  const last = Math.max(...[queue, release].flatMap(({ createdAt }) => createdAt));
  const max = Math.ceil(hoursOf(last) * 4) / 4;
  const hours = { type: 'value', min: 0, max };
  draw(
    {
      title: { text: `${queue.jobs} creates at once where ${PER_HOUR} an hour are taken`, left: 'center' },
      legend: { bottom: 0, data: ['the budget', QUEUE, RELEASE] },
      grid: [CREATED, REFUSED],
      xAxis: [
        { ...hours, gridIndex: 0 },
        { ...hours, gridIndex: 1, name: 'hours', nameLocation: 'middle', nameGap: 25 },
      ],
      yAxis: [
        { type: 'value', name: 'created', min: 0, gridIndex: 0 },
        { type: 'value', name: 'answers 429', min: 0, max: 2, interval: 1, axisLabel: { show: false }, gridIndex: 1 },
      ],
      series: [
        line('the budget', budget(queue.jobs, max), BUDGET, 'dashed'),
        line(RELEASE, created(release), RELEASE_COLOR),
        line(QUEUE, created(queue), OURS),
        ticks(release, 0.5, RELEASE_COLOR),
        ticks(queue, 1.5, OURS),
      ],
    },
    join(folder, 'queue.svg'),
    SIZE,
  );
}

/** The most that may have been created by then. */
function budget(jobs: number, max: number): Point[] {
  return Array.from({ length: Math.ceil(max) + 1 }, (_, hour) => [
    Math.min(hour, max),
    Math.min((hour + 1) * PER_HOUR, jobs),
  ]);
}

/** How many were created by each create. */
function created({ createdAt }: CrowdFigures): Point[] {
  return [[0, 0], ...createdAt.map((minutes, index): Point => [hoursOf(minutes), index + 1])];
}

function line(name: string, data: Point[], color: string, type: 'solid' | 'dashed' = 'solid') {
  const style = { lineStyle: { color, type, width: 2 }, itemStyle: { color } };
  return { name, type: 'line', step: 'end', showSymbol: false, data, ...style };
}

/** Each answer 429 as a tick of its own row, which begins with their count. */
function ticks({ throttledAt }: CrowdFigures, row: number, color: string) {
  const data = throttledAt.map((minutes): Point => [hoursOf(minutes), row]);
  const count = { coord: [0, row], symbolSize: 0, label: { position: 'left', formatter: String(data.length) } };
  const label = { show: true, color: '#374151' };
  return {
    ...{ type: 'scatter', xAxisIndex: 1, yAxisIndex: 1, data, itemStyle: { color } },
    ...{ symbol: 'rect', symbolSize: [2, 20], markPoint: { symbol: 'circle', label, data: [count] } },
  };
}
