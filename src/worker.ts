/** The production worker, `npm run worker`: everything that it needs comes from the environment. */
import { Runtime } from '@temporalio/worker';
import { createActivities } from './activities/index.js';
import { LONGEST_STAY_MS } from './activities/watch-job.js';
import { createExportActivities } from './activities/visitor-export.js';
import { ConfigError, readWorkerConfig } from './config.js';
import type { WorkerConfig } from './config.js';
import { openStore } from './snapshots/open-store.js';
import type { SnapshotStore } from './snapshots/snapshot-store.js';
import { createUpstream } from './upstream/client.js';
import { createKeySource } from './upstream/keys.js';
import { watchConsistentDays } from './worker/consistent-days.js';
import { connectTemporal, reachNamespace } from './worker/connection.js';
import { startHealthServer } from './worker/health-server.js';
import { createLogger } from './worker/logging.js';
import type { Logger } from './worker/logging.js';
import { bearJobEnds, createMetrics } from './worker/metrics.js';
import { watchOpenJobs } from './worker/open-jobs.js';
import { watchProcess } from './worker/process-figures.js';
import { Readiness } from './worker/readiness.js';
import { installRuntime } from './worker/runtime.js';
import { Shutdown } from './worker/shutdown.js';
import { timedUpstream } from './worker/timed-upstream.js';
import { warnOfMissingSearchAttributes } from './worker/visibility.js';
import { WorkflowNames } from './worker/workflow-names.js';
import { createWorkers } from './worker/workers.js';

async function run(config: WorkerConfig, log: Logger): Promise<void> {
  const { temporal, healthAddress, metricsAddress, roles, taskQueue, upstreamRequestsPerSecond } = config;
  const { namespace, address } = temporal;
  const shutdown = new Shutdown(log);
  const readiness = new Readiness();
  shutdown.onBegin(() => readiness.stop('shuts down'));
  if (healthAddress) await startHealthServer(healthAddress, () => readiness.state());
  const names = new WorkflowNames();
  await installRuntime(log, names, metricsAddress);
  const meter = Runtime.instance().metricMeter;
  const metrics = createMetrics(meter);
  bearJobEnds(meter, { namespace, taskQueue });
  if (metricsAddress) shutdown.onBegin(watchProcess(meter));
  const connection = await connectTemporal(temporal, log);
  names.connect(connection, namespace);
  const keys = createKeySource(config.upstream.keys);
  const upstream = createUpstream({ ...config.upstream, keys, onAnswer: metrics.upstreamAnswered });
  const dependencies = { upstream: timedUpstream(upstream, metrics), shutdownSignal: shutdown.signal, metrics };
  const store = openSnapshots(config);
  const workers = await createWorkers(config, connection, {
    // The server's limit counts attempts: under a limit each read is one.
    jobs: () => createActivities({ ...dependencies, stayMs: upstreamRequestsPerSecond ? 0 : LONGEST_STAY_MS }),
    exports: () => createExportActivities({ ...dependencies, ...exportSettings(config, store) }),
  });
  await warnOfMissingSearchAttributes(connection, namespace, log);
  if (metricsAddress) shutdown.onBegin(watchOpenJobs(connection, namespace, metrics, log));
  if (metricsAddress && store) shutdown.onBegin(watchConsistentDays(store, metrics, log));
  readiness.watch((deadline) => reachNamespace(connection, namespace, deadline), workers);
  log.info({ address, namespace, taskQueue, roles }, 'The worker runs');
  if (!roles.includes('exports')) log.info('Exports are off: SNAPSHOTS_URL or WORKER_ROLES leaves them out');
  await shutdown.run(workers);
  await connection.close();
}

/** Null where this worker has no exports. */
function openSnapshots({ roles, snapshots }: WorkerConfig): SnapshotStore | null {
  if (!roles.includes('exports') || !snapshots) return null;
  return openStore(snapshots.url, { forcePathStyle: snapshots.forcePathStyle });
}

function exportSettings({ exportRequestsPerHour }: WorkerConfig, store: SnapshotStore | null) {
  return { store: store!, requestsPerHour: exportRequestsPerHour }; // there is one wherever the exports role is
}

try {
  const config = readWorkerConfig();
  const log = createLogger(config.log);
  await run(config, log).catch((error: unknown) => {
    log.error({ error }, 'The worker cannot go on');
    process.exit(1);
  });
  log.info('The worker has ended');
  process.exit();
} catch (error) {
  if (!(error instanceof ConfigError)) throw error;
  process.stderr.write(`The worker cannot start: ${error.message}\n`);
  process.exit(1);
}
