import { readFileSync } from 'node:fs';
import type { MetricMeter } from '@temporalio/common';
import { expect, test } from 'vitest';
import { WORKER_VARIABLES } from '../../src/config.js';
import { createMeters } from '../../src/worker/metrics.js';

/** Every `name` before the colon or bracket of a list item of a section. */
function namesIn(file: string, heading: string): string[] {
  const page = readFileSync(new URL(`../../docs/${file}`, import.meta.url), 'utf8');
  const section = page.split(/^## /m).find((each) => each.startsWith(`${heading}\n`)) ?? '';
  const heads = section.split('\n').flatMap((line) => (line.startsWith('- `') ? [line.split(/: | \(/)[0]!] : []));
  return heads.flatMap((head) => [...head.matchAll(/`(\w+\*?)[^`]*`/g)].map(([, name]) => name!));
}

/** Temporal's own settings and metrics are many, and documented by Temporal. */
const isOurs = (name: string) => !/^temporal_/i.test(name);

test('the list of settings holds every variable of a worker, and no other', () => {
  expect(namesIn('operations.md', 'Settings').filter(isOurs).toSorted()).toEqual([...WORKER_VARIABLES].toSorted());
});

function figureNames(): string[] {
  const names: string[] = [];
  const create = (name: string) => {
    names.push(name);
    return { add() {}, set() {}, record() {} };
  };
  const meter = { createCounter: create, createGauge: create, createHistogram: create } as unknown as MetricMeter;
  createMeters(meter, { namespace: 'default', taskQueue: 'q' });
  return names;
}

test('the list of metrics holds every metric of a worker, and no other', () => {
  expect(namesIn('operations.md', 'Metrics').filter(isOurs).toSorted()).toEqual(figureNames().toSorted());
});

test('a metric has a name of ours, but for the gauges that other Node programs have under the same name', () => {
  expect(figureNames().filter((name) => !name.startsWith('agent_jobs_'))).toEqual([
    ...['process_start_time_seconds', 'process_resident_memory_bytes'],
    'nodejs_eventloop_lag_p99_seconds',
  ]);
});
