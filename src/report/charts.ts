/** Charts as SVG. Colours are CSS variables of the page, so that one drawing serves light, dark and paper. */
import { init, type EChartsCoreOption } from 'echarts/dist/echarts.esm.min.mjs';
import type { Day } from '../snapshots/catalog.js';
import { aiShare } from './figures.js';
import { Html } from './html.js';

interface Line {
  name: string;
  color: string;
  valueOf: (day: Day) => number | null;
}

interface Size {
  width: number;
  height: number;
}

const HEIGHT = 280;
/** Each chart is drawn twice, since text in a shrunk drawing can't be read on a phone. */
const SIZES: [className: string, size: Size][] = [
  ['wide', { width: 960, height: HEIGHT }],
  ['narrow', { width: 380, height: HEIGHT }],
];
/** Around the plot, in pixels; wide enough for the labels. */
const MARGIN = { left: 52, right: 14 };
const MARK = { inconsistent: 'var(--bad)', provisional: 'var(--soft)' } as const;

/** Visitors of each day, human and AI. */
export function visitorsChart(days: readonly Day[]): Html {
  const lines: Line[] = [
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

/** A small line over the days, without axes; no line where no day has a value. */
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

function drawn(days: readonly Day[], lines: Line[], format: (value: number) => string, label: string): Html {
  const drawings = SIZES.map(([className, size]) => {
    const chart = init(null, null, { renderer: 'svg', ssr: true, ...size });
    try {
      chart.setOption(optionOf(days, lines, format, size));
      const svg = chart.renderToSVGString({ useViewBox: true });
      return `<div class="chart ${className}" role="img" aria-label="${label}">${svg}</div>`;
    } finally {
      chart.dispose();
    }
  });
  return new Html(drawings.join(''));
}

function optionOf(
  days: readonly Day[],
  lines: Line[],
  format: (value: number) => string,
  { width }: Size,
): EChartsCoreOption {
  const text = { color: 'var(--muted)', fontSize: 12 };
  return {
    animation: false,
    textStyle: { fontFamily: 'system-ui, sans-serif' },
    legend: { show: lines.length > 1, top: 0, left: 0, icon: 'roundRect', itemHeight: 4, textStyle: text },
    grid: { ...MARGIN, top: lines.length > 1 ? 34 : 14, bottom: 28 },
    xAxis: {
      type: 'category',
      boundaryGap: days.length < 2,
      data: days.map(({ date }) => date),
      axisLabel: { ...text, hideOverlap: true, formatter: shortDate, interval: labelStep(days.length, width) },
      axisLine: { lineStyle: { color: 'var(--line)' } },
      axisTick: { show: false },
    },
    yAxis: {
      type: 'value',
      axisLabel: { ...text, formatter: format },
      splitLine: { lineStyle: { color: 'var(--line)' } },
    },
    series: lines.map((line, i) => seriesOf(days, line, i === 0 ? gapsOf(days, width) : null)),
  };
}

function seriesOf(days: readonly Day[], { name, color, valueOf }: Line, gaps: object[][] | null): object {
  const values = days.map(valueOf);
  return {
    type: 'line',
    name,
    color,
    lineStyle: { width: 2, color },
    symbol: 'circle',
    showSymbol: true,
    showAllSymbol: true,
    data: days.map(({ state }, i) => pointOf(values, i, state, color)),
    ...(gaps && { markArea: { silent: true, itemStyle: { color: 'var(--gap)' }, data: gaps } }),
  };
}

/** Days to doubt are dots; so is a day between two gaps, which no line would show. */
function pointOf(values: readonly (number | null)[], i: number, state: Day['state'], color: string): object {
  const value = values[i] ?? null;
  const isAlone = (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null;
  if (state === 'inconsistent') return { value, symbolSize: 9, itemStyle: { color: MARK.inconsistent } };
  if (state === 'provisional') {
    return { value, symbolSize: 8, itemStyle: { color: 'var(--paper)', borderColor: color, borderWidth: 2 } };
  }
  return { value, symbolSize: isAlone ? 6 : 0, itemStyle: { color } };
}

/**
 * Bands over the days without a snapshot, half way to their neighbours. In pixels, for an axis of categories knows no
 * place between two days.
 */
function gapsOf(days: readonly Day[], width: number): object[][] {
  const last = days.length - 1;
  const step = (width - MARGIN.left - MARGIN.right) / Math.max(1, last);
  const edge = (i: number, place: number) => ({
    xAxis: days[i]?.date,
    x: MARGIN.left + step * Math.min(Math.max(place, 0), last),
  });
  const gaps: object[][] = [];
  for (let i = 0; i < days.length; i++) {
    if (!isGap(days[i])) continue;
    const from = i;
    while (isGap(days[i + 1])) i++;
    gaps.push([edge(from, from - 0.5), edge(i, i + 0.5)]);
  }
  return gaps;
}

function isGap(day: Day | undefined): boolean {
  return day?.manifest === null;
}

function labelStep(days: number, width: number): number {
  return Math.max(0, Math.ceil(days / (width / 90)) - 1);
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
