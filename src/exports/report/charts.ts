/** Charts as SVG. Colours are CSS variables of the page, so that one drawing serves light and dark. */
import { init, type EChartsCoreOption } from 'echarts/dist/echarts.esm.min.mjs';
import type { Day } from '../snapshots/catalog.js';
import { aiShare, isBelieved } from './figures.js';
import { Html } from './html.js';

interface ChartLine {
  name: string;
  color: string;
  valueOf: (day: Day) => number | null;
}

const SIZE = { width: 960, height: 280 };

/** Visitors of each day, human and AI. */
export function visitorsChart(days: readonly Day[]): Html {
  const lines: ChartLine[] = [
    { name: 'Human', color: 'var(--human)', valueOf: ({ manifest }) => manifest?.totals.human ?? null },
    { name: 'AI', color: 'var(--ai)', valueOf: ({ manifest }) => manifest?.totals.ai ?? null },
  ];
  return drawn(days, lines, compact, 'Unique visitors of each day, human and AI');
}

/** The AI share of each day. */
export function shareChart(days: readonly Day[]): Html {
  const valueOf = ({ manifest }: Day) => (manifest ? aiShare(manifest.totals) : null);
  const line = { name: 'AI share', color: 'var(--ai)', valueOf };
  return drawn(days, [line], (value) => `${Math.round(value * 100)} %`, 'AI share of the unique visitors of each day');
}

/** A small line over the days, without axes; no line if no day has a value. */
export function sparkline(values: readonly (number | null)[]): Html {
  const most = Math.max(1, ...values.map((value) => value ?? 0));
  const x = (i: number) => round(values.length < 2 ? 50 : (100 * i) / (values.length - 1));
  const y = (value: number) => round(23 - (22 * value) / most);
  let path = '';
  values.forEach((value, i) => {
    if (value === null) return;
    const isJoined = i > 0 && values[i - 1] !== null;
    // A dot is a line of no length.
    const isAlone = !isJoined && (values[i + 1] ?? null) === null;
    path += `${isJoined ? 'L' : 'M'}${x(i)} ${y(value)}${isAlone ? 'h0' : ''}`;
  });
  return new Html(
    `<svg class="spark" viewBox="-1 0 102 24" preserveAspectRatio="none" aria-hidden="true"><path d="${path}"/></svg>`,
  );
}

function drawn(days: readonly Day[], lines: ChartLine[], format: (value: number) => string, label: string): Html {
  const chart = init(null, null, { renderer: 'svg', ssr: true, ...SIZE });
  try {
    chart.setOption(optionOf(days, lines, format));
    const svg = chart.renderToSVGString({ useViewBox: true });
    return new Html(`<div class="chart" role="img" aria-label="${label}">${svg}</div>`);
  } finally {
    chart.dispose();
  }
}

function optionOf(days: readonly Day[], lines: ChartLine[], format: (value: number) => string): EChartsCoreOption {
  const text = { color: 'var(--muted)', fontSize: 12 };
  return {
    animation: false,
    textStyle: { fontFamily: 'system-ui, sans-serif' },
    legend: { show: lines.length > 1, top: 0, left: 0, icon: 'roundRect', itemHeight: 4, textStyle: text },
    grid: { left: 52, right: 14, top: lines.length > 1 ? 34 : 14, bottom: 28 },
    xAxis: {
      type: 'category',
      boundaryGap: days.length < 2,
      data: days.map(({ date }) => date),
      axisLabel: { ...text, hideOverlap: true, formatter: shortDate, interval: labelStep(days.length) },
      axisLine: { lineStyle: { color: 'var(--line)' } },
      axisTick: { show: false },
    },
    yAxis: {
      type: 'value',
      axisLabel: { ...text, formatter: format },
      splitLine: { lineStyle: { color: 'var(--line)' } },
    },
    series: lines.map((line) => seriesOf(days, line, mostOf(days, lines), format)),
  };
}

/** The largest value of a day that is believed. */
function mostOf(days: readonly Day[], lines: ChartLine[]): number {
  const values = days.filter(isBelieved).flatMap((day) => lines.map(({ valueOf }) => valueOf(day) ?? 0));
  return values.length > 0 ? Math.max(...values) : Infinity;
}

function seriesOf(
  days: readonly Day[],
  { name, color, valueOf }: ChartLine,
  most: number,
  format: (value: number) => string,
): object {
  const values = days.map(valueOf);
  return {
    type: 'line',
    name,
    color,
    lineStyle: { width: 2, color },
    symbol: 'circle',
    showSymbol: true,
    showAllSymbol: true,
    data: days.map(({ state }, i) => withinAxis(pointOf(values, i, state, color), most, format)),
  };
}

/** A day to doubt may stretch the axis by half: most are a little above the days that are believed. */
const MAX_STRETCH = 1.5;

/** A dot that lies far outside stands at the end of the axis, with its value beside it. */
function withinAxis(point: ChartPoint, most: number, format: (value: number) => string): object {
  const { value } = point;
  if (value === null || value <= most * MAX_STRETCH) return point;
  const label = { show: true, position: 'bottom', color: 'var(--muted)', fontSize: 12, formatter: format(value) };
  return { ...point, value: most, label };
}

interface ChartPoint {
  value: number | null;
  symbolSize: number;
  itemStyle: object;
}

/** Days to doubt are dots; so is a day between two gaps, which no line would show. */
function pointOf(values: readonly (number | null)[], i: number, state: Day['state'], color: string): ChartPoint {
  const value = values[i] ?? null;
  const isAlone = (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null;
  if (state === 'inconsistent') return { value, symbolSize: 9, itemStyle: { color: 'var(--bad)' } };
  if (state === 'provisional') {
    return { value, symbolSize: 8, itemStyle: { color: 'var(--paper)', borderColor: color, borderWidth: 2 } };
  }
  return { value, symbolSize: isAlone ? 6 : 0, itemStyle: { color } };
}

/** One label in every 90 pixels. */
function labelStep(days: number): number {
  return Math.max(0, Math.ceil(days / (SIZE.width / 90)) - 1);
}

function shortDate(date: string): string {
  const month = new Date(`${date}T00:00:00Z`).toLocaleDateString('en-US', { month: 'short', timeZone: 'UTC' });
  return `${Number(date.slice(8))} ${month}`;
}

function compact(value: number): string {
  return value.toLocaleString('en-US', { notation: 'compact', maximumFractionDigits: 1 });
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
