/**
 * Writes a recording as a test of promtool: the series that rules and dashboard use, as they were scraped, and which
 * alerts fire at any time of the run. Its clock begins at 0, so times since 1970 are told from the first scrape.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readExpressions, TESTS_FOLDER } from './files.js';
import { parseExposition, selectorsOf } from './promql.js';
import { SCRAPE_INTERVAL_S, type Recording, type Scrape } from './recorder.js';
import type { Scenario } from './scenario.js';

/** As the scrape jobs are named. */
const jobOf = (instance: string) => (instance.startsWith('serve') ? 'agent-jobs-http' : 'agent-jobs');
/** More digits would be noise. */
const DIGITS = 6;

export async function writeTestFile({ name, fault, fires }: Scenario, recording: Recording): Promise<void> {
  const wanted = new Set(readExpressions().flatMap((each) => selectorsOf(each).map(({ metric }) => metric)));
  const series = seriesOf(recording, wanted);
  const ticks = Object.values(recording.scrapes)[0]!.length;
  const text = [
    `# Made by "npm run record:alerts": real workers, scraped every ${SCRAPE_INTERVAL_S} seconds.`,
    `# Fault: ${fault}.`,
    'rule_files: [../agent-jobs.rules.yml]',
    `evaluation_interval: ${SCRAPE_INTERVAL_S}s`,
    'tests:',
    `  - name: ${name}`,
    `    interval: ${SCRAPE_INTERVAL_S}s`,
    '    input_series:',
    ...series.flatMap(([key, values]) => [`      - series: '${key}'`, `        values: '${compressed(values)}'`]),
    '    promql_expr_test:',
    `      # Whatever fired at any time of the run.`,
    `      - expr: group by (alertname) (max_over_time(ALERTS{alertstate="firing"}[2h]))`,
    `        eval_time: ${(ticks - 1) * SCRAPE_INTERVAL_S}s`,
    ...(fires.length === 0 ? ['        exp_samples: []'] : ['        exp_samples:']),
    ...fires.map((alert) => `          - { labels: '{alertname="${alert}"}', value: 1 }`),
    '',
  ];
  await mkdir(TESTS_FOLDER, { recursive: true });
  await writeFile(join(TESTS_FOLDER, `${name}.yml`), text.join('\n'));
}

type Values = (number | null)[];

/** Each series with its values, null where a scrape did not have it. */
function seriesOf({ startedAt, scrapes }: Recording, wanted: ReadonlySet<string>): [string, Values][] {
  const all = new Map<string, Values>();
  for (const [instance, texts] of Object.entries(scrapes)) {
    const job = jobOf(instance);
    all.set(
      keyOf('up', { job, instance }),
      texts.map((text) => (text === null ? 0 : 1)),
    );
    texts.forEach((text, tick) => {
      for (const { metric, labels, value } of samplesOf(text, wanted)) {
        const key = keyOf(metric, { job, instance, ...labels });
        const values = all.get(key) ?? texts.map(() => null);
        values[tick] = isTime(metric) ? value - startedAt / 1_000 : value;
        all.set(key, values);
      }
    });
  }
  return [...all].toSorted(([a], [b]) => (a < b ? -1 : 1));
}

const samplesOf = (text: Scrape, wanted: ReadonlySet<string>) =>
  parseExposition(text ?? '').filter(({ metric }) => wanted.has(metric));

const isTime = (metric: string) => /_(timestamp|start_time)_seconds$/.test(metric);

function keyOf(metric: string, labels: Record<string, string>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${value}"`);
  return `${metric}{${pairs.join(',')}}`;
}

/** In promtool's notation, runs of one value as one word. A series that is gone is stale, as for Prometheus. */
function compressed(values: Values): string {
  const words: string[] = [];
  for (let from = 0; from < values.length;) {
    let to = from;
    while (to < values.length && Object.is(values[to], values[from])) to++;
    words.push(...wordsFor(values[from]!, to - from, from > 0));
    from = to;
  }
  return words.join(' ');
}

function wordsFor(value: number | null, count: number, wasThere: boolean): string[] {
  if (value !== null) return [count === 1 ? shown(value) : `${shown(value)}x${count - 1}`];
  if (!wasThere) return [`_x${count}`];
  return count === 1 ? ['stale'] : ['stale', `_x${count - 1}`];
}

function shown(value: number): string {
  return Number.isNaN(value) ? 'NaN' : String(Number(value.toPrecision(DIGITS)));
}
