import { readFileSync } from 'node:fs';
import type { MetricMeter } from '@temporalio/common';
import { expect, test } from 'vitest';
import { WORKER_VARIABLES } from '../../src/config.js';
import { ReadFailedError, RejectedError } from '../../src/upstream/errors.js';
import { createMeters, type Meters, timedUpstream } from '../../src/worker/metrics.js';
import { inDoubt, unauthorized } from '../support/outcomes.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';

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

test('calls whose key is refused or missing are counted, reads too', async () => {
  const refusals: unknown[] = [];
  let timed = 0;
  const meters = {
    took: { record: () => void (timed += 1) },
    refused: { add: (_: number, { operation }: { operation: string }) => void refusals.push(operation) },
  };
  const scripted = new ScriptedUpstream();
  let version: string | null = 'key';
  scripted.keyVersion = () => Promise.resolve(version);
  const upstream = timedUpstream(scripted, meters as unknown as Pick<Meters, 'took' | 'refused'>);
  const job = { projectId: 'p', jobId: 'j' };
  const read = async (fault?: Error) => {
    if (fault) scripted.readFaults.push(fault);
    await upstream.getJob(job).catch(() => {});
    return refusals.splice(0);
  };
  scripted.createFaults.push(unauthorized('401'), { kind: 'blocked', reason: 'a page' }, inDoubt('reset'));
  for (let i = 0; i < 4; i++) await upstream.createJob({ projectId: 'p', prompt: 'x' });
  scripted.messageFaults.push(unauthorized('401'));
  expect((await upstream.sendMessage({ ...job, prompt: 'x' })).kind).toBe('unauthorized');
  expect(refusals.splice(0)).toEqual(['create', 'message']);
  for (const status of [401, 403]) expect(await read(new ReadFailedError('refused', status))).toEqual(['get']);
  const page = new ReadFailedError('a page', 403, undefined, undefined, true);
  for (const fault of [undefined, page, new ReadFailedError('no answer'), new RejectedError('404', 404, '')]) {
    expect(await read(fault)).toEqual([]);
  }
  version = null;
  expect(await read(new ReadFailedError('ADMIN_API_KEY is not set'))).toEqual(['get']);
  scripted.getVisitors = () => Promise.reject(new RejectedError('403', 403, ''));
  const days = { dateFrom: '2026-01-01', dateTo: '2026-01-02', limit: 1, offset: 0 };
  await expect(upstream.getVisitors({ projectId: 'p', ...days })).rejects.toThrow('403');
  expect([refusals, timed]).toEqual([['visitors'], 13]);
});
