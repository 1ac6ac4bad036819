/** The SDK's runtime, which there is one of per process, and the metrics of the process itself. */
import { lookup } from 'node:dns/promises';
import { isIPv6 } from 'node:net';
import { readFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Runtime, type Logger, type TelemetryOptions } from '@temporalio/worker';
import type { MetricMeter } from '@temporalio/common';
import type { ListenAddress } from '../config.js';
import { messageOf } from './connection.js';
import { histogramBuckets } from './metrics.js';
import { every } from './every.js';

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
