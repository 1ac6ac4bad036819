/** A worker of the queue alone in a process of its own, to be killed. Its one argument is JSON. */
import '../support/quiet-runtime.js';
import { NativeConnection, Worker } from '@temporalio/worker';
import { isolateTimeout } from '../../src/temporal/workflow-bundle.js';

const { address, namespace, taskQueue, codePath } = JSON.parse(process.argv[2] ?? '') as Record<string, string> & {
  taskQueue: string;
  codePath: string;
};
const worker = await Worker.create({
  connection: await NativeConnection.connect({ address: address ?? '' }),
  namespace: namespace ?? '',
  taskQueue,
  workflowBundle: { codePath },
  ...isolateTimeout,
});
await worker.run();
