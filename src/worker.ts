/** The production worker, `npm run worker`: everything that it needs comes from the environment. */
import type { NativeConnection, Runtime } from '@temporalio/worker';
import { Budgets, createActivities, KeyHealth, Poller } from './activities/index.js';
import type { Metrics } from './activities/metrics.js';
import {
  countExports,
  createExportActivities,
  type ExportActivitiesDependencies,
} from './activities/visitor-export/export-activities.js';
import {
  ConfigError,
  payloadKeysWarnings,
  readTemporalSettings,
  readWorkerConfig,
  upstreamWarnings,
  type WorkerConfig,
} from './config.js';
import { openStore } from './snapshots/open-store.js';
import type { SnapshotStore } from './snapshots/snapshot-store.js';
import { createUpstream } from './upstream/client.js';
import { createKeySource } from './upstream/keys.js';
import type { Upstream } from './upstream/upstream.js';
import { watchBudgets, watchLostQueues } from './worker/queue-news.js';
import { countExportPollers, scheduledProjects, watchConsistentDays } from './worker/export-gauges.js';
import { connectTemporal, reachNamespace } from './worker/connection.js';
import { every } from './worker/every.js';
import { bridgeToTemporal, createLogger, WorkflowIds, type Logger } from './worker/logging.js';
import { createMetrics, installRuntime, startJobEndsAtZero, timedUpstream, watchProcess } from './worker/metrics.js';
import { checkSearchAttributes, watchOpenJobs } from './worker/open-jobs.js';
import { Readiness, startHealthServer } from './worker/readiness.js';
import { keepSweeping, openWebhooks } from './worker/webhooks.js';
import { createWorkers, Shutdown } from './worker/workers.js';
import { watchVersion } from './worker/old-version.js';
import { openTraces, type Traces } from './worker/traces.js';

const POLLS_HELD_INTERVAL_MS = 5_000;

async function runWorker(config: WorkerConfig, log: Logger): Promise<void> {
  const { temporal, healthAddress, metricsAddress, upstreamRequestsPerSecond } = config;
  const shutdown = new Shutdown(log);
  for (const warning of warningsOf(config)) log.warn(warning);
  const readiness = new Readiness();
  shutdown.onBegin(() => readiness.stop('shuts down'));
  const restored = restoreMode(config, log);
  if (healthAddress) await startHealthServer(healthAddress, () => ({ ...readiness.state(), ...restored }));
  const workflowIds = new WorkflowIds();
  const traces = await openTraces({ tracing: config.tracing, namespace: temporal.namespace, log });
  const meter = await installRuntime(bridgeToTemporal(log, workflowIds, traces.traceIdOf), metricsAddress);
  const metrics = startMetrics(meter, config, shutdown);
  const connection = await connectTemporal(temporal, log, readTemporalSettings);
  workflowIds.connect(connection, temporal.namespace);
  const upstream = openUpstream(config, metrics);
  const keyHealth = new KeyHealth({ upstream, metrics, onChange: logKeyChanges(log) });
  readiness.onProbe(metrics.ready);
  readiness.watchKeys(() => keyHealth.refusedProjects);
  const dependencies = { upstream: keyHealth.upstream, shutdownSignal: shutdown.signal, metrics, ...restored };
  const store = await openSnapshots(config);
  const poller = upstreamRequestsPerSecond ? null : new Poller(shutdown.signal, metrics);
  const budgets = new Budgets(config.budgets, { onProblem: logBudgetProblem(log) });
  const workers = await createWorkers(config, connection, {
    tell: { metrics, log },
    sinks: traces.sinks,
    webhooks: openWebhooks({ config, metrics, log, shutdown }),
    // The limit counts attempts: under it each read is one, and questions for a key take at most a quarter.
    jobs: () =>
      createActivities({
        ...dependencies,
        keyHealth,
        budgets,
        poller,
        asksPerSecond: (upstreamRequestsPerSecond ?? Infinity) / 4,
      }),
    exports: () => countedExports({ ...dependencies, ...exportSettings(config, store) }),
  });
  await checkSearchAttributes(connection, temporal.namespace, log);
  shutdown.onBegin(watchVersion({ config, connection, poller, log }));
  shutdown.onBegin(watchBudgets({ config, connection, budgets, log }));
  shutdown.onBegin(watchLostQueues({ config, connection, log }));
  shutdown.onBegin(keepSweeping(config, connection, log));
  if (metricsAddress) watchFigures({ config, connection, metrics, store, poller, log, shutdown });
  readiness.watch((deadline) => reachNamespace(connection, temporal.namespace, deadline), workers);
  logStart(config, log);
  await runUntilEnd(() => shutdown.runUntilEnd(workers), poller, traces);
  await connection.close();
}

function startMetrics(
  meter: Runtime['metricMeter'],
  { temporal: { namespace }, taskQueue, metricsAddress }: WorkerConfig,
  shutdown: Shutdown,
): Metrics {
  startJobEndsAtZero(meter, { namespace, taskQueue });
  if (metricsAddress) shutdown.onBegin(watchProcess(meter));
  return createMetrics(meter);
}

function openUpstream({ upstream }: WorkerConfig, metrics: Metrics): Upstream {
  const keys = createKeySource(upstream.keys);
  return timedUpstream(createUpstream({ ...upstream, keys, onResponse: metrics.upstreamResponded }), metrics);
}

function warningsOf({ upstream, payloadKeysFile }: WorkerConfig): string[] {
  return [...upstreamWarnings(upstream), ...payloadKeysWarnings(payloadKeysFile)];
}

/** Waits, however the workers end, for what they left. */
async function runUntilEnd(run: () => Promise<void>, poller: Poller | null, traces: Traces): Promise<void> {
  try {
    await run();
  } finally {
    await Promise.all([poller?.ended(), traces.end()]);
  }
}

function countedExports(dependencies: ExportActivitiesDependencies & { metrics: Metrics }): object {
  return countExports(createExportActivities(dependencies), dependencies.metrics);
}

interface FiguresOptions {
  config: WorkerConfig;
  connection: NativeConnection;
  metrics: Metrics;
  store: SnapshotStore | null;
  poller: Poller | null;
  log: Logger;
  shutdown: Shutdown;
}

/** Counts what no call of an activity shows: open jobs, workers of the exports, days without a good export. */
function watchFigures({ config, connection, metrics, store, poller, log, shutdown }: FiguresOptions): void {
  const { taskQueue, temporal } = config;
  const { namespace } = temporal;
  shutdown.onBegin(watchPoller(poller, metrics));
  shutdown.onBegin(watchOpenJobs(connection, namespace, metrics, log, config.payloadKeysFile));
  shutdown.onBegin(countExportPollers(connection, namespace, taskQueue, metrics, log));
  if (!store) return;
  const schedules = () => scheduledProjects(connection, namespace, taskQueue);
  shutdown.onBegin(watchConsistentDays({ store, schedules, metrics, log }));
}

/** One line for each change of a project's key, however many jobs wait for it. */
function logKeyChanges(log: Logger) {
  return (projectId: string, reason: string | null) => {
    if (reason === null) log.info({ projectId }, 'The upstream accepts the key of this project again');
    else log.warn({ projectId, reason }, 'The key of this project is refused or missing: its writes wait');
  };
}

/** Records how many polls are held; returns what stops it. */
function watchPoller(poller: Poller | null, metrics: Metrics): () => void {
  return every(POLLS_HELD_INTERVAL_MS, () => metrics.pollsHeld(poller?.size ?? 0));
}

function logBudgetProblem(log: Logger) {
  return (problem: string) => log.warn({ problem }, 'PROJECT_BUDGETS_FILE is wrong: its last good content holds');
}

/**
 * Reads the setting for the time after a restore; warns of a past time, which fits only a worker that was restarted.
 */
function restoreMode({ confirmWritesBefore }: WorkerConfig, log: Logger): { confirmWritesBefore?: string } {
  if (confirmWritesBefore === undefined) return {};
  if (Date.parse(confirmWritesBefore) < Date.now())
    log.warn({ confirmWritesBefore }, 'CONFIRM_WRITES_BEFORE has passed: what was not taken up by then does not ask');
  return { confirmWritesBefore };
}

function logStart({ temporal, roles, taskQueue, confirmWritesBefore }: WorkerConfig, log: Logger): void {
  const { address, namespace } = temporal;
  const restored = confirmWritesBefore === undefined ? {} : { confirmWritesBefore };
  log.info({ address, namespace, taskQueue, roles, ...restored }, 'The worker runs');
  if (!roles.includes('exports')) log.info('Exports are off: SNAPSHOTS_URL or WORKER_ROLES leaves them out');
}

/** Null where this worker has no exports. */
async function openSnapshots({ roles, snapshots }: WorkerConfig): Promise<SnapshotStore | null> {
  if (!roles.includes('exports') || !snapshots) return null;
  return openStore(snapshots.url, { forcePathStyle: snapshots.forcePathStyle });
}

function exportSettings({ exportRequestsPerHour }: WorkerConfig, store: SnapshotStore | null) {
  return { store: store!, requestsPerHour: exportRequestsPerHour }; // there is one wherever the exports role is
}

try {
  const config = readWorkerConfig();
  const log = createLogger(config.log);
  await runWorker(config, log).catch((error: unknown) => {
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
