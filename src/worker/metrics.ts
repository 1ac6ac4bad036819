import type { MetricMeter } from '@temporalio/common';
import type { Metrics } from '../metrics.js';

const SETTLE_SECONDS = 'agent_jobs_write_settle_seconds';
/** Upper bounds by metric, in seconds: from an answer at once to a write that a person had to settle. */
export const histogramBuckets = { [SETTLE_SECONDS]: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60, 300, 3_600, 86_400] };

/** Our figures on the SDK's meter. */
export function createMetrics(meter: MetricMeter): Metrics {
  const writes = meter.createCounter(
    'agent_jobs_writes_total',
    undefined,
    'Sends of a create or a message, by outcome',
  );
  const settle = meter.createHistogram(
    SETTLE_SECONDS,
    'float',
    's',
    'From the moment a write was asked for to its fate',
  );
  const answers = meter.createCounter(
    'agent_jobs_upstream_answers_total',
    undefined,
    'Answers of the upstream, by class',
  );
  const attention = meter.createGauge(
    'agent_jobs_needs_attention',
    'int',
    undefined,
    'Running jobs that wait for a person',
  );
  const dayAge = meter.createGauge(
    'agent_jobs_last_consistent_day_age_seconds',
    'float',
    's',
    'Since the end of the last day with a consistent export',
  );
  const gaps = meter.createGauge(
    'agent_jobs_export_gap_days',
    'float',
    undefined,
    'Days of the last 28 that no night has exported well',
  );
  const pollers = meter.createGauge('agent_jobs_export_pollers', 'int', undefined, 'Workers that ask for exports');
  return {
    writeEnded: (operation, outcome) => writes.add(1, { operation, outcome }),
    writeSettled: (operation, seconds) => settle.record(Math.max(0, seconds), { operation }),
    upstreamAnswered: (operation, answerClass) => answers.add(1, { operation, class: answerClass }),
    needAttention: (jobs) => attention.set(jobs),
    lastConsistentDayAge: (project, seconds) => dayAge.set(seconds, { project }),
    exportGaps: (project, days) => gaps.set(days, { project }),
    // The SDK's meter forgets no series: one without a number raises no alert.
    exportsRemoved: (project) => [dayAge, gaps].forEach((gauge) => gauge.set(Number.NaN, { project })),
    exportPollers: (count) => pollers.set(count),
  };
}
