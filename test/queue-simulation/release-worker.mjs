/**
 * The worker of release 0.2.0 in virtual time: `node release-worker.mjs <folder of its build> <may die>`. Its own
 * program holds writes back by the machine's clock, which says nothing where the server skips time; here it is the
 * server's.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, mayDie] = process.argv.slice(2);
const built = (name) => import(pathToFileURL(join(folder, 'dist', name)).href);
const require = createRequire(join(folder, 'package.json'));
const { activityInfo } = require('@temporalio/activity');
const { DefaultLogger, NativeConnection, Runtime, Worker } = require('@temporalio/worker');
const { createActivities } = await built('activities/index.js');
const { noMetrics } = await built('activities/metrics.js');
const { loadWorkflowBundle } = await built('temporal/workflow-bundle.js');
const { createUpstream } = await built('upstream/client.js');
const { createKeySource } = await built('upstream/keys.js');
const { jobOptions } = await built('worker/workers.js');

const { TEMPORAL_ADDRESS: address, AGENT_JOBS_TASK_QUEUE: taskQueue, UPSTREAM_BASE_URL: baseUrl } = process.env;
Runtime.install({ logger: new DefaultLogger('ERROR'), shutdownSignals: [] });
const keys = createKeySource({ adminApiKey: process.env.ADMIN_API_KEY });
const upstream = createUpstream({ baseUrl, keys, timeoutMs: 20_000, notTakenStatuses: [] });
const activities = createActivities({
  upstream,
  shutdownSignal: new AbortController().signal,
  metrics: noMetrics,
  pollingBudgetMs: 25_000,
  breakerClock: () => activityInfo().currentAttemptScheduledTimestampMs,
});
const connection = await NativeConnection.connect({ address });
// See no-sticky-tasks.mjs.
const options = { ...jobOptions({}), ...(mayDie === 'true' && { maxCachedWorkflows: 0 }) };
const worker = await Worker.create({ ...options, ...loadWorkflowBundle(), connection, taskQueue, activities });
console.log('The worker runs');
await worker.run();
