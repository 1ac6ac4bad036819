import { lookup } from 'node:dns/promises';
import { isIPv6 } from 'node:net';
import { Runtime } from '@temporalio/worker';
import type { Logger, TelemetryOptions } from '@temporalio/worker';
import type { ListenAddress } from '../config.js';
import { messageOf } from './connection.js';
import { histogramBuckets } from './metrics.js';

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
