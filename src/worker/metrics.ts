/** The names, units and buckets of the worker's metrics, and the runtime that serves them. */
import { lookup } from 'node:dns/promises';
import { isIPv6 } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { MetricCounter, MetricGauge, MetricHistogram, MetricMeter } from '@temporalio/common';
import { type Logger, Runtime, type TelemetryOptions } from '@temporalio/worker';
import { type Metrics, SNAPSHOT_VERDICTS, WRITE_OUTCOMES } from '../activities/metrics.js';
import { cannotListen, type ListenAddress } from '../config.js';
import { AGENT_JOB_WORKFLOW, FAILURE, JOB_ENDS, JOBS_ENDED_METRIC } from '../contract.js';
import { RESPONSE_CLASSES } from '../upstream/outcome.js';
import { keepRuntime } from '../temporal/private/keep-runtime.js';
import { releaseVersion } from '../temporal/workflow-bundle.js';
import { every } from './every.js';

type Row = readonly [kind: keyof Instruments, name: string, description: string, unit?: string];

const METRICS = {
  ready: ['gauge', 'agent_jobs_ready', '1 while the worker polls and reaches Temporal, else 0'],
  pollsHeld: ['gauge', 'agent_jobs_polls_held', 'Batches of polls that this worker holds'],
  attentionJobs: ['gauge', 'agent_jobs_needs_attention', 'Running jobs that wait for a person'],
  openJobs: ['gauge', 'agent_jobs_open', 'Running jobs, by phase and version of the workers'],
  waitingJobs: ['gauge', 'agent_jobs_waiting', 'Running jobs that wait, by reason'],
  uncreatedJobs: ['gauge', 'agent_jobs_uncreated', 'Running jobs without an id, older than this'],
  waitingExports: ['gauge', 'agent_jobs_waiting_exports', 'Exports that have waited for more than an hour'],
  requestQueues: ['gauge', 'agent_jobs_request_queues', 'Queues of requests that run'],
  budgetLimit: ['gauge', 'agent_jobs_budget_limit', 'Requests that a budget allows'],
  budgetUsed: ['gauge', 'agent_jobs_budget_used', 'Requests that count towards a budget'],
  lastCount: ['gauge', 'agent_jobs_last_count_timestamp_seconds', 'When the running jobs were last counted', 's'],
  dayAge: ['gauge', 'agent_jobs_last_consistent_day_age_seconds', 'Since the end of the last consistent day', 's'],
  exportGaps: ['gauge', 'agent_jobs_export_gaps', 'Days of the last 28 without a good export', 'd'],
  exportPollers: ['gauge', 'agent_jobs_export_pollers', 'Workers that ask for exports'],
  lastSearch: ['gauge', 'agent_jobs_webhook_last_search_timestamp_seconds', 'When events were last searched', 's'],
  webhooksWrong: ['gauge', 'agent_jobs_webhooks_file_wrong', '1 while WEBHOOKS_FILE is wrong'],
  buildInfo: ['gauge', 'agent_jobs_build_info', 'Always 1: the release and what it runs on'],
  // A gauge, though it only grows: the SDK's counters take whole numbers alone.
  cpu: ['gauge', 'agent_jobs_cpu_seconds', 'CPU time used so far, all threads', 's'],
  // The process, under the names and with the types that other Node programs have.
  startTime: ['gauge', 'process_start_time_seconds', 'When the process started', 's'],
  resident: ['gauge', 'process_resident_memory_bytes', 'Resident memory, all threads', 'By'],
  lag: ['gauge', 'nodejs_eventloop_lag_p99_seconds', 'Of the last 5 seconds', 's'],
  writes: ['counter', 'agent_jobs_writes_total', 'Sends of a create or a message, by outcome'],
  requests: ['counter', 'agent_jobs_upstream_requests_total', 'Requests to the upstream, by what came back'],
  refused: ['counter', 'agent_jobs_key_refusals_total', 'Requests whose key was refused or missing'],
  unknownStatus: ['counter', 'agent_jobs_unknown_status_polls_total', 'Polls that showed an unknown status'],
  plainPayloads: ['counter', 'agent_jobs_plain_payloads_total', 'Payloads read without encryption, if keys are set'],
  staleCopies: ['counter', 'agent_jobs_stale_copies_total', 'Copies of runs that the guard threw away'],
  snapshots: ['counter', 'agent_jobs_snapshots_total', 'Publications of snapshots, by verdict'],
  malformedRows: ['counter', 'agent_jobs_malformed_rows_total', 'Rows left out of published snapshots'],
  exportFailures: ['counter', 'agent_jobs_export_failures_total', 'Steps of exports that failed, by type'],
  webhookTries: ['counter', 'agent_jobs_webhook_tries_total', 'Requests of webhooks, by receiver and result'],
  duration: ['histogram', 'agent_jobs_write_duration_seconds', 'From the request of a write to its outcome', 's'],
  took: ['histogram', 'agent_jobs_upstream_request_duration_seconds', 'Duration of a request', 's'],
  endLate: ['histogram', 'agent_jobs_end_seen_late_seconds', 'How long ago, at most, a polled job had ended', 's'],
  pollLate: ['histogram', 'agent_jobs_poll_late_seconds', 'How late a poll of a held batch began', 's'],
} as const satisfies Record<string, Row>;

/** Upper bounds by metric, in seconds: from an answer at once to a write that a person had to resolve. */
const BUCKETS = {
  [METRICS.duration[1]]: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60, 300, 3_600, 86_400],
  [METRICS.took[1]]: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20],
  [METRICS.endLate[1]]: [1, 2, 5, 10, 30, 60, 120, 300, 3_600],
  [METRICS.pollLate[1]]: [0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300],
};

const LABELLED_WRITES = ['create', 'message'];
const LABELLED_OPERATIONS = [...LABELLED_WRITES, 'get', 'visitors'];
/** Other failures of a step are those of a worker that stops, or of an export that was cancelled. */
const EXPORT_FAILURES: readonly string[] = [FAILURE.exportRejected, FAILURE.snapshotStoreFailed, FAILURE.exportFailed];

/** The labels of the counters whose every series begins at 0: one that begins at 1 shows no increase. */
const AT_ZERO: Readonly<Partial<Record<keyof Meters, Labels>>> = {
  writes: { operation: LABELLED_WRITES, outcome: WRITE_OUTCOMES },
  requests: { operation: LABELLED_OPERATIONS, class: RESPONSE_CLASSES },
  refused: { operation: LABELLED_OPERATIONS },
  plainPayloads: {},
  staleCopies: {},
  snapshots: { verdict: SNAPSHOT_VERDICTS },
  malformedRows: {},
  exportFailures: { type: EXPORT_FAILURES },
};

type Labels = Readonly<Record<string, readonly string[]>>;

interface Instruments {
  gauge: MetricGauge;
  counter: MetricCounter;
  histogram: MetricHistogram;
}

/** All metrics of a worker, by their names in the table above. */
export type Meters = { [Name in keyof typeof METRICS]: Instruments[(typeof METRICS)[Name][0]] };

/** The metrics on the SDK's meter. The workflows' own counter of ended jobs begins at 0, too. */
export function createMeters(meter: MetricMeter, worker: { namespace: string; taskQueue: string }): Meters {
  const create = ([kind, name, text, unit]: Row) => {
    if (kind === 'histogram') return meter.createHistogram(name, 'float', unit, text);
    if (kind === 'counter') return meter.createCounter(name, undefined, text);
    return meter.createGauge(name, unit === undefined || unit === 'By' ? 'int' : 'float', unit, text);
  };
  const made = Object.entries<Row>(METRICS).map(([name, row]) => [name, create(row)] as const);
  const meters = Object.fromEntries(made) as unknown as Meters;
  for (const [name, labels] of Object.entries(AT_ZERO)) startAtZero(meters[name as 'writes'], labels);
  const ended = meter.createCounter(JOBS_ENDED_METRIC, undefined, 'Jobs that ended, by outcome');
  const { namespace, taskQueue } = worker;
  const ofWorkflows = { namespace: [namespace], taskQueue: [taskQueue], workflowType: [AGENT_JOB_WORKFLOW] };
  startAtZero(ended, { ...ofWorkflows, outcome: JOB_ENDS });
  meters.ready.set(0);
  return meters;
}

function startAtZero(counter: MetricCounter, labels: Labels): void {
  let series: Record<string, string>[] = [{}];
  for (const [label, values] of Object.entries(labels)) {
    series = series.flatMap((one) => values.map((value) => ({ ...one, [label]: value })));
  }
  for (const one of series) counter.add(0, one);
}

/** What activities count. */
export function metricsOf(meters: Meters): Metrics {
  const { writes, duration, unknownStatus, endLate, pollLate, snapshots, malformedRows, exportFailures } = meters;
  return {
    writeEnded: (operation, outcome) => writes.add(1, { operation, outcome }),
    writeEndedAfter: (operation, seconds) => duration.record(Math.max(0, seconds), { operation }),
    unknownStatus: (project) => unknownStatus.add(1, { project }),
    endSeen: (seconds) => endLate.record(Math.max(0, seconds)),
    pollBegins: (seconds) => pollLate.record(Math.max(0, seconds)),
    snapshotPublished: (verdict) => snapshots.add(1, { verdict }),
    malformedRows: (count) => malformedRows.add(count),
    exportFailed: (type) => EXPORT_FAILURES.includes(type) && exportFailures.add(1, { type }),
  };
}

/** Counts a try of a webhook; a receiver's results that did not come begin at 0. */
export function countWebhookTry({ webhookTries }: Pick<Meters, 'webhookTries'>, receiver: string, came: string): void {
  for (const result of ['delivered', 'gone', 'failed']) webhookTries.add(result === came ? 1 : 0, { receiver, result });
}

/**
 * Sets the Temporal SDK up, once per process: its logs join ours, its signal handlers are off, and its Prometheus
 * exporter serves its metrics and ours at one address. Returns the meter of ours. Throws if that address can't be
 * used.
 */
export async function installRuntime(
  logger: Logger,
  metricsAddress: ListenAddress | undefined,
): Promise<Runtime['metricMeter']> {
  const logging = { filter: { core: 'WARN', other: 'ERROR' }, forward: {} } as const;
  const base = { logger, shutdownSignals: [] };
  if (!metricsAddress) return Runtime.install({ ...base, telemetryOptions: { logging } }).metricMeter;
  try {
    const prometheus = await prometheusOptions(metricsAddress);
    const runtime = Runtime.install({ ...base, telemetryOptions: { logging, metrics: { prometheus } } });
    keepRuntime(runtime);
    return runtime.metricMeter;
  } catch (error) {
    throw cannotListen('METRICS_ADDRESS', error);
  }
}

type PrometheusOptions = Extract<NonNullable<TelemetryOptions['metrics']>, { prometheus: unknown }>['prometheus'];

// The exporter binds to an IP address only.
async function prometheusOptions({ host, port }: ListenAddress): Promise<PrometheusOptions> {
  const { address } = await lookup(host);
  const bindAddress = isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`;
  return { bindAddress, useSecondsForDurations: true, histogramBucketOverrides: BUCKETS };
}

const SAMPLE_INTERVAL_MS = 5_000;

/** Records the metrics of this process; returns what stops that. */
export function watchProcess(meters: Meters): () => void {
  meters.startTime.set(Date.now() / 1_000 - process.uptime());
  meters.buildInfo.set(1, { version: releaseVersion(), node: process.version });
  const delay = monitorEventLoopDelay();
  delay.enable();
  return every(SAMPLE_INTERVAL_MS, () => {
    meters.resident.set(process.memoryUsage.rss());
    const { user, system } = process.cpuUsage();
    meters.cpu.set((user + system) / 1e6);
    meters.lag.set(delay.count === 0 ? 0 : delay.percentile(99) / 1e9);
    delay.reset();
  });
}
