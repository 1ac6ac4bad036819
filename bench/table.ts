/** Markdown tables: one per scenario, a row per figure, a column per contender. */
import { median, type Measured } from './figures.js';

/** Median (least to most) of the repetitions, and ours as a multiple of the baseline where both have the figure. */
export function tables(measured: readonly Measured[]): string {
  const scenarios = [...new Set(measured.map(({ scenario }) => scenario))];
  return scenarios.map((scenario) => table(scenario, measured)).join('\n');
}

function table(scenario: string, all: readonly Measured[]): string {
  const measured = all.filter((one) => one.scenario === scenario);
  const contenders = [...new Set(measured.map(({ contender }) => contender))];
  const names = [...new Set(measured.flatMap(({ figures }) => Object.keys(figures)))];
  const valuesOf = (contender: string, name: string) =>
    measured
      .filter((one) => one.contender === contender)
      .map(({ figures }) => figures[name])
      .filter((value): value is number => value != null && !Number.isNaN(value));
  const rows = names.map((name) => {
    const cells = contenders.map((contender) => cell(valuesOf(contender, name)));
    return `| ${[name, ...cells, ratio(contenders.map((contender) => valuesOf(contender, name)))].join(' | ')} |`;
  });
  const repetitions = new Set(measured.map(({ repetition }) => repetition)).size;
  const loads = measured.map(({ load }) => load);
  return [
    `### ${scenario}`,
    '',
    `Repetitions: ${repetitions}; load average ${show(Math.min(...loads))} to ${show(Math.max(...loads))}.`,
    '',
    `| | ${[...contenders, 'first ÷ second'].join(' | ')} |`,
    `| --- |${' --- |'.repeat(contenders.length + 1)}`,
    ...rows,
    '',
  ].join('\n');
}

function cell(values: number[]): string {
  if (values.length === 0) return '–';
  if (values.length === 1) return show(values[0]!);
  return `${show(median(values))} (${show(Math.min(...values))}–${show(Math.max(...values))})`;
}

function ratio([first, second]: number[][]): string {
  if (!first?.length || !second?.length || median(second) === 0) return '–';
  return `${(median(first) / median(second)).toFixed(2)} ×`;
}

/** Three significant digits. */
function show(value: number): string {
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString('en');
  return value.toFixed(size >= 10 ? 1 : 2);
}
