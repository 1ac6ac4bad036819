/** The production worker, `npm run worker`: everything that it needs comes from the environment. */
import { Client } from '@temporalio/client';
import { Budgets } from './activities/agent-job/budgets.js';
import { createJobActivities } from './activities/agent-job/job-activities.js';
import { KeyHealth, type KeyHealthOptions } from './activities/agent-job/key-health.js';
import { HeldPolls } from './activities/agent-job/held-polls.js';
import { countExports, createExportActivities } from './activities/visitor-export/export-activities.js';
import { ConfigError, readPayloadKeys, readTemporalSettings, readWorkerConfig, upstreamWarnings } from './config.js';
import type { WorkerConfig } from './config.js';
import { openStore } from './exports/snapshots/open-store.js';
import type { SnapshotStore } from './exports/snapshots/snapshot-store.js';
import { payloadCodecs } from './temporal/payload-codec.js';
import { createUpstream } from './upstream/client.js';
import { createKeySource } from './upstream/keys.js';
import type { Upstream } from './upstream/upstream.js';
import { watchBudgets, watchBudgetUse } from './worker/budgets.js';
import { countExportPollers, scheduledProjects, watchConsistentDays } from './worker/export-gauges.js';
import { connectTemporal, reachNamespace } from './worker/connection.js';
import { every } from './worker/every.js';
import { atMostEvery, bridgeToTemporal, createLogger, type Logger } from './worker/logging.js';
import { createMeters, type Meters, installRuntime, metricsOf, watchProcess } from './worker/metrics.js';
import { searchAttributesCheck, watchOpenJobs } from './worker/open-jobs.js';
import { Readiness, startHealthServer, watchCutCalls } from './worker/readiness.js';
import { keepSweeping, openWebhooks } from './worker/webhooks.js';
import { createWorkers, Shutdown } from './worker/workers.js';
import { watchVersion } from './worker/old-version.js';

const POLLS_HELD_INTERVAL_MS = 5_000;

async function runWorker(config: WorkerConfig, log: Logger, pollLeaseMs: number | undefined): Promise<void> {
  const { temporal, taskQueue, healthAddress, metricsAddress, upstreamRequestsPerSecond } = config;
  const shutdown = new Shutdown(log);
  for (const warning of upstreamWarnings(config.upstream)) log.warn(warning);
  const readiness = new Readiness();
  shutdown.onBegin(() => readiness.stop('shuts down'));
  const restored = restoreMode(config, log);
  const cut = {};
  if (healthAddress) await startHealthServer(healthAddress, () => ({ ...readiness.state(), ...restored, ...cut }));
  const meter = await installRuntime(bridgeToTemporal(log), metricsAddress);
  const meters = createMeters(meter, { namespace: temporal.namespace, taskQueue });
  const metrics = metricsOf(meters);
  const connection = await connectTemporal(temporal, log, readTemporalSettings);
  const upstream = openUpstream(config, meters, log);
  // The limit counts attempts: under it each poll is one, and writes that wait ask with at most a quarter.
  const asksPerSecond = (upstreamRequestsPerSecond ?? Infinity) / 4;
  const keyHealth = new KeyHealth({ upstream, onChange: logHolds(log), asksPerSecond });
  const dependencies = { upstream, shutdownSignal: shutdown.signal, metrics, ...restored };
  const store = await openSnapshots(config);
  const heldPolls = upstreamRequestsPerSecond ? null : new HeldPolls(shutdown.signal, metrics);
  const budgets = new Budgets(config.budgets, { onProblem: logFileProblem(log) });
  const keys = readPayloadKeys();
  const workers = await createWorkers(config, connection, {
    keys,
    onPlain: countPlain(meters, log),
    pollLeaseMs,
    onStaleCopy: () => meters.staleCopies.add(1),
    webhooks: openWebhooks({ config, meters, log, shutdown }),
    jobs: () => createJobActivities({ ...dependencies, keyHealth, budgets, heldPolls }),
    // With the exports role there is a store.
    exports: () => {
      const settings = { store: store!, requestsPerHour: config.exportRequestsPerHour };
      return countExports(createExportActivities({ ...dependencies, ...settings }), metrics);
    },
  });
  const client = new Client({ connection, namespace: temporal.namespace, dataConverter: payloadCodecs(keys) });
  startWatches({ config, client, budgets, meters, store, heldPolls, log, shutdown });
  readiness.watch({
    reach: (deadline) => reachNamespace(connection, temporal.namespace, deadline),
    workers,
    lacking: searchAttributesCheck(client, log),
    onProbe: (isReady) => meters.ready.set(isReady ? 1 : 0),
    refusedKeys: () => keyHealth.refusedProjects,
  });
  watchCutCalls(cut, client, workers[0]!.options.identity);
  logStart(config, log);
  try {
    await shutdown.runUntilEnd(workers);
  } finally {
    // However the workers end, the polls that they left end too.
    await heldPolls?.ended();
  }
  await connection.close();
}

function openUpstream({ upstream }: WorkerConfig, meters: Meters, log: Logger): Upstream {
  const keys = createKeySource(upstream.keys, { onProblem: logFileProblem(log) });
  const onResponse = (operation: string, responseClass: string) =>
    meters.requests.add(1, { operation, class: responseClass });
  const onCall = (operation: string, seconds: number, wasRefused: boolean) => {
    meters.took.record(seconds, { operation });
    if (wasRefused) meters.refused.add(1, { operation });
  };
  return createUpstream({ ...upstream, keys, onResponse, onCall });
}

interface WatchesOptions {
  config: WorkerConfig;
  client: Client;
  budgets: Budgets;
  meters: Meters;
  store: SnapshotStore | null;
  heldPolls: HeldPolls | null;
  log: Logger;
  shutdown: Shutdown;
}

/** What this process does beside its activities, until it shuts down. */
function startWatches(options: WatchesOptions): void {
  const { config, client, budgets, meters, store, heldPolls, log, shutdown } = options;
  const { taskQueue, roles } = config;
  shutdown.onBegin(watchVersion({ config, client, heldPolls, log }));
  if (roles.includes('jobs') && Object.keys(config.budgets).length > 0) {
    shutdown.onBegin(watchBudgets({ client, taskQueue, log }, budgets));
  }
  if (config.webhooks) shutdown.onBegin(keepSweeping(client, taskQueue, log));
  if (!config.metricsAddress) return;
  shutdown.onBegin(watchProcess(meters));
  // What no call of an activity shows: held polls, open jobs, budgets, workers of the exports, days without an export.
  shutdown.onBegin(every(POLLS_HELD_INTERVAL_MS, () => meters.pollsHeld.set(heldPolls?.size ?? 0)));
  shutdown.onBegin(watchOpenJobs(client, config, meters, log));
  shutdown.onBegin(watchBudgetUse({ client, taskQueue, log }, meters));
  shutdown.onBegin(countExportPollers(client, taskQueue, meters, log));
  if (!store) return;
  const schedules = () => scheduledProjects(client, taskQueue);
  shutdown.onBegin(watchConsistentDays({ store, schedules, meters, log }));
}

/** Old histories are plain, too: a line an hour says that there are any, and the metric how many. */
function countPlain({ plainPayloads }: Meters, log: Logger): (payloads: number) => void {
  const warn = atMostEvery(3_600_000, () =>
    log.warn('Payloads are not encrypted: a caller has no keys, or they are older than PAYLOAD_KEYS_FILE'),
  );
  return (payloads) => {
    plainPayloads.add(payloads);
    warn();
  };
}

/** One line for each change of what holds the writes of a project and operation, however many jobs wait for it. */
function logHolds(log: Logger): NonNullable<KeyHealthOptions['onChange']> {
  return ({ projectId, operation }, held) => {
    const fields = { projectId, operation, ...(held && { reason: held.reason }) };
    if (held === null) log.info(fields, 'Writes of this project are accepted again');
    else if (held.kind === 'blocked') log.warn(fields, 'The upstream itself does not answer writes: they wait');
    else log.warn(fields, 'The key of this project is refused or missing: its writes wait');
  };
}

function logFileProblem(log: Logger) {
  return (problem: string | null) => {
    if (problem !== null) log.warn({ problem }, 'A file of settings is wrong');
  };
}

/** Reads the setting for the time after a restore; warns of a past time, which fits only a restarted worker. */
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

/** Null if this worker has no exports. */
async function openSnapshots({ roles, snapshots }: WorkerConfig): Promise<SnapshotStore | null> {
  if (!roles.includes('exports') || !snapshots) return null;
  return openStore(snapshots.url, { forcePathStyle: snapshots.forcePathStyle });
}

try {
  const config = readWorkerConfig();
  // What `npm start` gives.
  const [pollLeaseMs] = process.argv.slice(2).map(Number);
  const log = createLogger(config.log);
  await runWorker(config, log, pollLeaseMs).catch((error: unknown) => {
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
