// A worker with the SDK's default settings. Environment: BENCH_TEMPORAL, BENCH_NAMESPACE, BENCH_UPSTREAM, BENCH_KEY.
import { fileURLToPath } from 'node:url';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import * as activities from './activities.mjs';

Runtime.install({ logger: new DefaultLogger('ERROR') });
const worker = await Worker.create({
  connection: await NativeConnection.connect({ address: process.env.BENCH_TEMPORAL }),
  namespace: process.env.BENCH_NAMESPACE,
  taskQueue: 'bench-baseline',
  activities,
  workflowsPath: fileURLToPath(new URL('./workflows.mjs', import.meta.url)),
});
console.log('the baseline worker runs');
await worker.run();
process.exit();
