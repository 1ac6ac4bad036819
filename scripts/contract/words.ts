/** What callers and operators compare and no schema holds: codes, names of metrics and of settings. */
import { readFileSync } from 'node:fs';
import type { MetricMeter } from '@temporalio/common';
import { EXITS } from '../../src/cli/exit.js';
import { WEBHOOK_EVENTS } from '../../src/contract/webhooks.js';
import { createMeters } from '../../src/worker/metrics.js';

export type Words = Readonly<ReturnType<typeof readWords>>;

/** Reads them out of a source tree. A metric or a setting may come without a word: each is a place of its own. */
export function readWords(root: string) {
  const found = (file: string, pattern: RegExp) =>
    [...readFileSync(`${root}src/${file}`, 'utf8').matchAll(pattern)].map(([, word]) => word!);
  const settings = [
    ...found('config.ts', /\b([A-Z\d]+_[A-Z_]+): (?:field|log|z\.)/g),
    ...found('config/client.ts', /'(AGENT_JOBS_\w+)'/g),
  ];
  return {
    events: WEBHOOK_EVENTS,
    errors: found('contract/errors.ts', /^ {2}\| '(\w+)'/gm),
    fates: found('client/agent-job/start-many.ts', /(?<=^ {2}fate: .*)'(\w+)'/gm),
    exits: Object.fromEntries(Object.entries(EXITS).map(([end, [code]]) => [end, code])),
    metrics: kindsOfMetrics(),
    settings: Object.fromEntries(settings.map((name) => [name, { kind: 'setting' }])),
  };
}

function kindsOfMetrics(): Record<string, { kind: string }> {
  const kinds: Record<string, { kind: string }> = {};
  const create = (kind: string) => (name: string) => {
    kinds[name] = { kind };
    return { add() {}, set() {}, record() {} };
  };
  const [createCounter, createGauge, createHistogram] = ['counter', 'gauge', 'histogram'].map(create);
  const meter = { createCounter, createGauge, createHistogram } as unknown as MetricMeter;
  createMeters(meter, { namespace: '', taskQueue: '' });
  return kinds;
}
