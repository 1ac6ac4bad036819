/**
 * A worker of the export task queue in a process of its own, to be killed. Its one argument is JSON. With
 * `tellsRequests` it reports each request and waits for the parent's answer: the upstream's clock follows.
 */
import { once } from 'node:events';
import '../support/quiet-runtime.js';
import { pathToFileURL } from 'node:url';
import { NativeConnection, Worker } from '@temporalio/worker';
import { createExportActivities } from '../../src/activities/visitor-export/export-activities.js';
import { startClock } from '../../src/temporal/activity-attempt.js';
import { openStore } from '../../src/exports/snapshots/open-store.js';
import { createUpstream } from '../../src/upstream/client.js';
import { createKeySource } from '../../src/upstream/keys.js';
import type { WorkerSettings } from './export.js';

const settings = JSON.parse(process.argv[2] ?? '') as WorkerSettings;
const { address, namespace, taskQueue, baseUrl, apiKey, root, requestsPerHour } = settings;
const client = createUpstream({
  baseUrl,
  keys: createKeySource({ adminApiKey: apiKey }),
  timeoutMs: 20_000,
  notTakenStatuses: [],
});
let told = Promise.resolve(); // one at a time: chunks of several exports are read at once
const getVisitors: typeof client.getVisitors = async (request, options) => {
  const at = startClock().server();
  told = told.then(async () => {
    const heard = once(process, 'message');
    process.send?.({ at });
    await heard;
  });
  await told;
  return client.getVisitors(request, options);
};
const upstream = settings.tellsRequests ? { ...client, getVisitors } : client;
const activities = createExportActivities({
  upstream,
  store: await openStore(pathToFileURL(root).href),
  shutdownSignal: new AbortController().signal,
  ...(requestsPerHour !== undefined && { requestsPerHour: Number(requestsPerHour) }),
});
const worker = await Worker.create({
  connection: await NativeConnection.connect({ address }),
  namespace,
  taskQueue,
  // It polls for nothing while it reads, so that another worker takes its part.
  ...(settings.tellsRequests && { maxConcurrentActivityTaskExecutions: 1 }),
  activities: activities,
});
process.send?.({ isReady: true });
await worker.run();
