/** The names, units and buckets of the worker's metrics, and the runtime that tells them. */
import { lookup } from 'node:dns/promises';
import { isIPv6 } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { MetricCounter, MetricMeter } from '@temporalio/common';
import { type Logger, Runtime, type TelemetryOptions } from '@temporalio/worker';
import { type Metrics, SNAPSHOT_VERDICTS, WRITE_OUTCOMES } from '../activities/metrics.js';
import { cannotListen, type ListenAddress } from '../config.js';
import { AGENT_JOB_WORKFLOW, FAILURE, JOB_ENDS, JOBS_ENDED_METRIC } from '../contract.js';
import { RESPONSE_CLASSES } from '../upstream/outcome.js';
import { releaseVersion } from '../temporal/workflow-bundle.js';
import type { Upstream } from '../upstream/upstream.js';
import { every } from './every.js';

type Row = readonly [name: string, description: string, unit?: string];

const GAUGES = {
  ready: ['agent_jobs_ready', '1 while the worker polls and reaches Temporal, else 0'],
  pollsHeld: ['agent_jobs_polls_held', 'Polls that this worker holds between their reads'],
  needAttention: ['agent_jobs_needs_attention', 'Running jobs that wait for a person'],
  openJobs: ['agent_jobs_open', 'Running jobs, by phase'],
  waitingJobs: ['agent_jobs_waiting', 'Running jobs that wait, by reason'],
  requestQueues: ['agent_jobs_request_queues', 'Queues of requests that run'],
  oldestCreate: ['agent_jobs_oldest_create_age_seconds', 'Since the oldest job without an id was started', 's'],
  oldestInDoubt: ['agent_jobs_oldest_in_doubt_age_seconds', 'Since the oldest write is in doubt', 's'],
  lastCount: ['agent_jobs_last_count_timestamp_seconds', 'When the running jobs were last counted', 's'],
  dayAge: ['agent_jobs_last_consistent_day_age_seconds', 'Since the end of the last day with a consistent export', 's'],
  exportGaps: ['agent_jobs_export_gap_days', 'Days of the last 28 without a good export', 'd'],
  exportPollers: ['agent_jobs_export_pollers', 'Workers that ask for exports'],
  lastLook: ['agent_jobs_webhooks_last_look_timestamp_seconds', 'When webhooks last looked for events', 's'],
  webhooksWrong: ['agent_jobs_webhooks_file_wrong', '1 while WEBHOOKS_FILE is wrong'],
  buildInfo: ['agent_jobs_build_info', 'Always 1: the release and what it runs on'],
  // A gauge, though it only grows: the SDK's counters take whole numbers alone.
  cpu: ['agent_jobs_cpu_seconds', 'CPU time used so far, all threads', 's'],
  // The process, under the names and with the types that other Node programs have.
  startTime: ['process_start_time_seconds', 'When the process started', 's'],
  resident: ['process_resident_memory_bytes', 'Resident memory, all threads', 'By'],
  heapUsed: ['nodejs_heap_size_used_bytes', 'Used heap of the main thread', 'By'],
  heapTotal: ['nodejs_heap_size_total_bytes', 'Heap of the main thread', 'By'],
  external: ['nodejs_external_memory_bytes', 'Memory outside of the heap, such as buffers', 'By'],
  lag: ['nodejs_eventloop_lag_p99_seconds', 'Of the last 5 seconds', 's'],
} as const satisfies Record<string, Row>;

const COUNTERS = {
  writes: ['agent_jobs_writes_total', 'Sends of a create or a message, by outcome'],
  answers: ['agent_jobs_upstream_answers_total', 'Answers of the upstream, by class'],
  refused: ['agent_jobs_keys_refused_total', 'Requests whose key was refused or missing'],
  plainPayloads: ['agent_jobs_plain_payloads_total', 'Payloads read without encryption, where keys are set'],
  snapshots: ['agent_jobs_snapshots_total', 'Publications of snapshots, by verdict'],
  exportFailures: ['agent_jobs_export_failures_total', 'Steps of exports that failed, by type'],
  webhookTries: ['agent_jobs_webhook_tries_total', 'Requests of webhooks, by receiver and result'],
} as const satisfies Record<string, Row>;

const HISTOGRAMS = {
  settle: ['agent_jobs_write_settle_seconds', 'From the moment a write was asked for to its fate'],
  took: ['agent_jobs_upstream_seconds', 'What a call of the upstream took'],
  endLate: ['agent_jobs_end_seen_late_seconds', 'How long ago, at most, a job had ended that a read found ended'],
  readLate: ['agent_jobs_poll_late_seconds', 'How late a read of a held poll began'],
} as const satisfies Record<string, Row>;

/** Upper bounds by metric, in seconds: from an answer at once to a write that a person had to settle. */
const histogramBuckets = {
  [HISTOGRAMS.settle[0]]: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60, 300, 3_600, 86_400],
  [HISTOGRAMS.took[0]]: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20],
  [HISTOGRAMS.endLate[0]]: [1, 2, 5, 10, 30, 60, 120, 300, 3_600],
  [HISTOGRAMS.readLate[0]]: [0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300],
};

const OPERATIONS = ['create', 'message', 'get', 'visitors'];
/** Other failures of a step are those of a worker that stops, or of an export that was cancelled. */
const EXPORT_FAILURES: readonly string[] = [FAILURE.exportRejected, FAILURE.snapshotStoreFailed, FAILURE.exportFailed];

/** All metrics of a worker, by their names in the tables above. */
export type Figures = ReturnType<typeof createFigures>;

/** The metrics on the SDK's meter; the counters begin at 0, that of the workflows' own meter too. */
export function createFigures(meter: MetricMeter, worker: { namespace: string; taskQueue: string }) {
  const figures = {
    ...each(GAUGES, (name, text, unit) =>
      meter.createGauge(name, unit === undefined || unit === 'By' ? 'int' : 'float', unit, text),
    ),
    ...each(COUNTERS, (name, text) => meter.createCounter(name, undefined, text)),
    ...each(HISTOGRAMS, (name, text) => meter.createHistogram(name, 'float', 's', text)),
  };
  startCountersAtZero(figures);
  startJobEndsAtZero(meter, worker);
  figures.ready.set(0);
  return figures;
}

function each<Name extends string, Metric>(
  table: Record<Name, Row>,
  create: (...row: Row) => Metric,
): Record<Name, Metric> {
  const metrics = Object.entries<Row>(table).map(([name, row]) => [name, create(...row)] as const);
  return Object.fromEntries(metrics) as Record<Name, Metric>;
}

/** What activities tell. */
export function metricsOf(figures: Figures): Metrics {
  const { writes, settle, refused, endLate, readLate, snapshots, exportFailures } = figures;
  return {
    writeEnded: (operation, outcome) => writes.add(1, { operation, outcome }),
    writeSettled: (operation, seconds) => settle.record(Math.max(0, seconds), { operation }),
    keyRefused: (operation) => refused.add(1, { operation }),
    endSeen: (seconds) => endLate.record(Math.max(0, seconds)),
    readBegins: (seconds) => readLate.record(Math.max(0, seconds)),
    snapshotPublished: (verdict) => snapshots.add(1, { verdict }),
    exportFailed: (type) => EXPORT_FAILURES.includes(type) && exportFailures.add(1, { type }),
  };
}

type Counters = Record<keyof typeof COUNTERS, MetricCounter>;

/** A series that begins at 1 shows no increase. */
function startCountersAtZero(counters: Counters): void {
  for (const operation of ['create', 'message']) {
    for (const outcome of WRITE_OUTCOMES) counters.writes.add(0, { operation, outcome });
  }
  for (const operation of OPERATIONS) {
    counters.refused.add(0, { operation });
    for (const responseClass of RESPONSE_CLASSES) counters.answers.add(0, { operation, class: responseClass });
  }
  counters.plainPayloads.add(0);
  for (const verdict of SNAPSHOT_VERDICTS) counters.snapshots.add(0, { verdict });
  for (const type of EXPORT_FAILURES) counters.exportFailures.add(0, { type });
}

/** Counts a try of a webhook; a receiver's results that did not come begin at 0. */
export function countWebhookTry({ webhookTries }: Pick<Figures, 'webhookTries'>, receiver: string, came: string): void {
  for (const result of ['delivered', 'gone', 'failed']) webhookTries.add(result === came ? 1 : 0, { receiver, result });
}

/** The workflows' own counter of ended jobs, with the labels that the SDK gives a workflow's metrics. */
function startJobEndsAtZero(meter: MetricMeter, worker: { namespace: string; taskQueue: string }): void {
  const ended = meter.createCounter(JOBS_ENDED_METRIC, undefined, 'Jobs that ended, by outcome');
  for (const outcome of JOB_ENDS) ended.add(0, { ...worker, workflowType: AGENT_JOB_WORKFLOW, outcome });
}

/** The same upstream; records how long each call took, whatever its result. */
export function timedUpstream(upstream: Upstream, { took }: Pick<Figures, 'took'>): Upstream {
  const timed = async <T>(operation: string, call: Promise<T>): Promise<T> => {
    const startedAt = performance.now();
    try {
      return await call;
    } finally {
      took.record((performance.now() - startedAt) / 1_000, { operation });
    }
  };
  return {
    createJob: (...request) => timed('create', upstream.createJob(...request)),
    sendMessage: (...request) => timed('message', upstream.sendMessage(...request)),
    getJob: (...request) => timed('get', upstream.getJob(...request)),
    keyVersion: (projectId) => upstream.keyVersion(projectId),
    getVisitors: (...request) => timed('visitors', upstream.getVisitors(...request)),
  };
}

// The SDK's runtime, which there is one of per process, and the metrics of the process itself.

/**
 * Sets the Temporal SDK up, once per process: its logs join ours, its signal handlers are off, and its Prometheus
 * exporter serves its metrics and ours at one address. Returns the meter of ours. Throws where that address can't be
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
    keepAlive(runtime);
    return runtime.metricMeter;
  } catch (error) {
    throw cannotListen('METRICS_ADDRESS', error);
  }
}

/**
 * The SDK ends its runtime, exporter included, with the last native connection, and so after each failed try to
 * connect. It counts connections in a private field. An entry of our own keeps the exporter while the worker waits for
 * Temporal.
 */
function keepAlive(runtime: Runtime): void {
  (runtime as unknown as { backRefs: Set<object> }).backRefs.add({});
}

type PrometheusOptions = Extract<NonNullable<TelemetryOptions['metrics']>, { prometheus: unknown }>['prometheus'];

// The exporter binds to an IP address only.
async function prometheusOptions({ host, port }: ListenAddress): Promise<PrometheusOptions> {
  const { address } = await lookup(host);
  const bindAddress = isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`;
  return { bindAddress, useSecondsForDurations: true, histogramBucketOverrides: histogramBuckets };
}

const SAMPLE_INTERVAL_MS = 5_000;

/** Records the metrics of this process; returns what stops that. */
export function watchProcess(figures: Figures): () => void {
  figures.startTime.set(Date.now() / 1_000 - process.uptime());
  figures.buildInfo.set(1, { version: releaseVersion(), node: process.version });
  const delay = monitorEventLoopDelay();
  delay.enable();
  return every(SAMPLE_INTERVAL_MS, () => {
    const memory = process.memoryUsage();
    figures.resident.set(memory.rss);
    figures.heapUsed.set(memory.heapUsed);
    figures.heapTotal.set(memory.heapTotal);
    figures.external.set(memory.external);
    const { user, system } = process.cpuUsage();
    figures.cpu.set((user + system) / 1e6);
    figures.lag.set(delay.count === 0 ? 0 : delay.percentile(99) / 1e9);
    delay.reset();
  });
}
