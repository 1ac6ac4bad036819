import { lookup } from 'node:dns/promises';
import { isIPv6 } from 'node:net';
import { Runtime } from '@temporalio/worker';
import type { TelemetryOptions } from '@temporalio/worker';
import type { ListenAddress } from '../config.js';
import { messageOf } from './connection.js';
import { bridgeToTemporal } from './logging.js';
import type { Logger, WorkflowIds } from './logging.js';
import { histogramBuckets } from './metrics.js';

/**
 * Sets the Temporal SDK up, once per process: its logs join ours, its signal handlers are off, and its Prometheus
 * exporter serves its metrics and ours at one address. Throws where that address can't be used.
 */
export async function installRuntime(
  log: Logger,
  workflowIds: WorkflowIds,
  metricsAddress: ListenAddress | undefined,
): Promise<void> {
  const logging = { filter: { core: 'WARN', other: 'ERROR' }, forward: {} } as const;
  const base = { logger: bridgeToTemporal(log, workflowIds), shutdownSignals: [] };
  if (!metricsAddress) {
    Runtime.install({ ...base, telemetryOptions: { logging } });
    return;
  }
  try {
    const prometheus = await prometheusOptions(metricsAddress);
    keepAlive(Runtime.install({ ...base, telemetryOptions: { logging, metrics: { prometheus } } }));
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
