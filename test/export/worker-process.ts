/** A worker of the export task queue in a process of its own, to be killed. Its one argument is JSON. */
import '../support/quiet-runtime.js';
import { pathToFileURL } from 'node:url';
import { NativeConnection, Worker } from '@temporalio/worker';
import { createExportActivities } from '../../src/activities/visitor-export/export-activities.js';
import { openStore } from '../../src/snapshots/open-store.js';
import { createUpstream } from '../../src/upstream/client.js';
import { createKeySource } from '../../src/upstream/keys.js';

const { address, namespace, taskQueue, baseUrl, apiKey, root, requestsPerHour } = JSON.parse(
  process.argv[2] ?? '',
) as Record<string, string> & {
  address: string;
  namespace: string;
  taskQueue: string;
  baseUrl: string;
  apiKey: string;
  root: string;
  requestsPerHour?: string;
};
const upstream = createUpstream({
  baseUrl,
  keys: createKeySource({ adminApiKey: apiKey }),
  timeoutMs: 20_000,
  notTakenStatuses: [],
});
const worker = await Worker.create({
  connection: await NativeConnection.connect({ address }),
  namespace,
  taskQueue,
  activities: createExportActivities({
    upstream,
    store: openStore(pathToFileURL(root).href),
    shutdownSignal: new AbortController().signal,
    ...(requestsPerHour !== undefined && { requestsPerHour: Number(requestsPerHour) }),
  }),
});
await worker.run();
