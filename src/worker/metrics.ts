/** The names, units and buckets of the worker's metrics, and the runtime that tells them. */
import { lookup } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { isIPv6 } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { MetricCounter, MetricMeter } from '@temporalio/common';
import { type Logger, Runtime, type TelemetryOptions } from '@temporalio/worker';
import { type Metrics, SNAPSHOT_VERDICTS, WRITE_OUTCOMES } from '../activities/metrics.js';
import type { ListenAddress } from '../config.js';
import { AGENT_JOB_WORKFLOW, FAILURE, JOB_ENDS, JOBS_ENDED_METRIC } from '../contract.js';
import { RESPONSE_CLASSES } from '../upstream/outcome.js';
import type { Upstream } from '../upstream/upstream.js';
import { messageOf } from './connection.js';
import { every } from './every.js';

const SETTLE_SECONDS = 'agent_jobs_write_settle_seconds';
const UPSTREAM_SECONDS = 'agent_jobs_upstream_seconds';
const END_SEEN_SECONDS = 'agent_jobs_end_seen_late_seconds';
const READ_LATE_SECONDS = 'agent_jobs_poll_late_seconds';
/** Upper bounds by metric, in seconds: from an answer at once to a write that a person had to settle. */
const histogramBuckets = {
  [SETTLE_SECONDS]: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60, 300, 3_600, 86_400],
  [UPSTREAM_SECONDS]: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20],
  [END_SEEN_SECONDS]: [1, 2, 5, 10, 30, 60, 120, 300, 3_600],
  [READ_LATE_SECONDS]: [0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300],
};

const OPERATIONS = ['create', 'message', 'get', 'visitors'];
/** Other failures of a step are those of a worker that stops, or of an export that was cancelled. */
const EXPORT_FAILURES: readonly string[] = [FAILURE.exportRejected, FAILURE.snapshotStoreFailed, FAILURE.exportFailed];

/** The metrics of this project, on the SDK's meter. */
export function createMetrics(meter: MetricMeter): Metrics {
  const { counter, gauge, seconds } = instrumentsOf(meter);
  const writes = counter('agent_jobs_writes_total', 'Sends of a create or a message, by outcome');
  const answers = counter('agent_jobs_upstream_answers_total', 'Answers of the upstream, by class');
  const settle = seconds(SETTLE_SECONDS, 'From the moment a write was asked for to its fate');
  const took = seconds(UPSTREAM_SECONDS, 'What a call of the upstream took');
  const late = seconds(END_SEEN_SECONDS, 'How long ago, at most, a job had ended that a read found ended');
  const lateReads = seconds(READ_LATE_SECONDS, 'How late a read of a held poll began');
  const held = gauge('agent_jobs_polls_held', 'Polls that this worker holds between their reads');
  const ready = gauge('agent_jobs_ready', '1 while the worker polls and reaches Temporal, else 0');
  const attention = gauge('agent_jobs_needs_attention', 'Running jobs that wait for a person');
  const open = gauge('agent_jobs_open', 'Running jobs, by phase');
  const waiting = gauge('agent_jobs_waiting', 'Running jobs that wait, by reason');
  const queues = gauge('agent_jobs_request_queues', 'Queues of requests that run');
  const oldest = {
    create: gauge('agent_jobs_oldest_create_age_seconds', 'Since the oldest job without an id was started', 's'),
    inDoubt: gauge('agent_jobs_oldest_in_doubt_age_seconds', 'Since the oldest write is in doubt', 's'),
  };
  const counted = gauge('agent_jobs_last_count_timestamp_seconds', 'When the running jobs were last counted', 's');
  const refused = counter('agent_jobs_keys_refused_total', 'Requests whose key was refused or missing');
  const refusedKeys = gauge('agent_jobs_projects_with_refused_key', 'Projects whose key is refused or missing');
  const plain = counter('agent_jobs_plain_payloads_total', 'Payloads read without encryption, where keys are set');
  startCountersAtZero({ writes, refused, answers });
  plain.add(0);
  ready.set(0);
  refusedKeys.set(0);
  return {
    writeEnded: (operation, outcome) => writes.add(1, { operation, outcome }),
    writeSettled: (operation, value) => settle.record(Math.max(0, value), { operation }),
    upstreamResponded: (operation, responseClass) => answers.add(1, { operation, class: responseClass }),
    keyRefused: (operation) => refused.add(1, { operation }),
    refusedKeys: (projects) => refusedKeys.set(projects),
    upstreamTook: (operation, value) => took.record(value, { operation }),
    endSeen: (value) => late.record(Math.max(0, value)),
    readBegins: (value) => lateReads.record(Math.max(0, value)),
    pollsHeld: (polls) => held.set(polls),
    ready: (isReady) => ready.set(isReady ? 1 : 0),
    needAttention: (jobs) => attention.set(jobs),
    openJobs: (phase, jobs) => open.set(jobs, { phase }),
    waitingJobs: (reason, jobs) => waiting.set(jobs, { for: reason }),
    requestQueues: (count) => queues.set(count),
    oldest: (what, value) => oldest[what].set(Math.max(0, value)),
    counted: () => counted.set(Date.now() / 1_000),
    plainPayloadsRead: (payloads) => plain.add(payloads),
    ...exportMetrics({ counter, gauge }),
    ...webhookMetrics({ counter, gauge }),
  };
}

type Instruments = ReturnType<typeof instrumentsOf>;

function instrumentsOf(meter: MetricMeter) {
  return {
    counter: (name: string, description: string) => meter.createCounter(name, undefined, description),
    gauge: (name: string, description: string, unit?: string) =>
      meter.createGauge(name, unit === undefined ? 'int' : 'float', unit, description),
    seconds: (name: string, description: string) => meter.createHistogram(name, 'float', 's', description),
  };
}

type ExportMetrics = Pick<
  Metrics,
  'lastConsistentDayAge' | 'exportGaps' | 'exportsRemoved' | 'snapshotPublished' | 'exportFailed' | 'exportPollers'
>;

function exportMetrics({ counter, gauge }: Pick<Instruments, 'counter' | 'gauge'>): ExportMetrics {
  const dayAge = gauge(
    'agent_jobs_last_consistent_day_age_seconds',
    'Since the end of the last day with a consistent export',
    's',
  );
  const gaps = gauge('agent_jobs_export_gap_days', 'Days of the last 28 without a good export', 'd');
  const snapshots = counter('agent_jobs_snapshots_total', 'Publications of snapshots, by verdict');
  const exportFailures = counter('agent_jobs_export_failures_total', 'Steps of exports that failed, by type');
  const pollers = gauge('agent_jobs_export_pollers', 'Workers that ask for exports');
  for (const verdict of SNAPSHOT_VERDICTS) snapshots.add(0, { verdict });
  for (const type of EXPORT_FAILURES) exportFailures.add(0, { type });
  return {
    lastConsistentDayAge: (project, value) => dayAge.set(value, { project }),
    exportGaps: (project, days) => gaps.set(days, { project }),
    // The SDK's meter forgets no series: one without a number raises no alert.
    exportsRemoved: (project) => [dayAge, gaps].forEach((gone) => gone.set(Number.NaN, { project })),
    snapshotPublished: (verdict) => snapshots.add(1, { verdict }),
    exportFailed: (type) => EXPORT_FAILURES.includes(type) && exportFailures.add(1, { type }),
    exportPollers: (count) => pollers.set(count),
  };
}

function webhookMetrics({
  counter,
  gauge,
}: Pick<Instruments, 'counter' | 'gauge'>): Pick<Metrics, 'webhookTried' | 'webhooksWrong'> {
  const tries = counter('agent_jobs_webhook_tries_total', 'Requests of webhooks, by receiver and result');
  const wrong = gauge('agent_jobs_webhooks_file_wrong', '1 while WEBHOOKS_FILE is wrong');
  return {
    // Those that did not come begin at 0.
    webhookTried: (receiver, result) =>
      ['delivered', 'gone', 'failed'].forEach((one) => tries.add(one === result ? 1 : 0, { receiver, result: one })),
    webhooksWrong: (isWrong) => wrong.set(isWrong ? 1 : 0),
  };
}

/** A series that begins at 1 shows no increase. */
function startCountersAtZero(counters: Record<'writes' | 'refused' | 'answers', MetricCounter>): void {
  for (const operation of ['create', 'message']) {
    for (const outcome of WRITE_OUTCOMES) counters.writes.add(0, { operation, outcome });
  }
  for (const operation of OPERATIONS) {
    counters.refused.add(0, { operation });
    for (const responseClass of RESPONSE_CLASSES) counters.answers.add(0, { operation, class: responseClass });
  }
}

/** Starts the workflows' own counter of ended jobs at 0, with the labels that the SDK gives a workflow's metrics. */
export function startJobEndsAtZero(
  meter: MetricMeter,
  { namespace, taskQueue }: { namespace: string; taskQueue: string },
): void {
  const ended = meter.createCounter(JOBS_ENDED_METRIC, undefined, 'Jobs that ended, by outcome');
  for (const outcome of JOB_ENDS) ended.add(0, { namespace, taskQueue, workflowType: AGENT_JOB_WORKFLOW, outcome });
}

/** The same upstream; records how long each call took, whatever its result. */
export function timedUpstream(upstream: Upstream, { upstreamTook }: Pick<Metrics, 'upstreamTook'>): Upstream {
  const timed = async <T>(operation: string, call: Promise<T>): Promise<T> => {
    const startedAt = performance.now();
    try {
      return await call;
    } finally {
      upstreamTook(operation, (performance.now() - startedAt) / 1_000);
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
    throw new Error(`METRICS_ADDRESS cannot be used: ${messageOf(error)}`);
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

/** Records metrics of this process under the names that other Node programs use; returns what stops them. */
export function watchProcess(meter: MetricMeter): () => void {
  const bytes = (name: string, description: string) => meter.createGauge(name, 'int', 'By', description);
  const resident = bytes('process_resident_memory_bytes', 'Resident memory, all threads');
  const heapUsed = bytes('nodejs_heap_size_used_bytes', 'Used heap of the main thread');
  const heapTotal = bytes('nodejs_heap_size_total_bytes', 'Heap of the main thread');
  const external = bytes('nodejs_external_memory_bytes', 'Memory outside of the heap, such as buffers');
  const lag = meter.createGauge('nodejs_eventloop_lag_p99_seconds', 'float', 's', 'Of the last 5 seconds');
  const cpu = meter.createGauge('process_cpu_seconds', 'float', 's', 'CPU time used so far, all threads');
  const startedAt = Date.now() / 1_000 - process.uptime();
  meter.createGauge('process_start_time_seconds', 'float', 's', 'When the process started').set(startedAt);
  meter
    .createGauge('agent_jobs_build_info', 'int', undefined, 'Always 1: the release and what it runs on')
    .set(1, { version: readVersion(), node: process.version });

  const delay = monitorEventLoopDelay();
  delay.enable();
  return every(SAMPLE_INTERVAL_MS, () => {
    const memory = process.memoryUsage();
    resident.set(memory.rss);
    heapUsed.set(memory.heapUsed);
    heapTotal.set(memory.heapTotal);
    external.set(memory.external);
    const { user, system } = process.cpuUsage();
    cpu.set((user + system) / 1e6);
    lag.set(delay.count === 0 ? 0 : delay.percentile(99) / 1e9);
    delay.reset();
  });
}

function readVersion(): string {
  const file = new URL('../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
