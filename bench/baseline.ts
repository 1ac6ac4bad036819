/** The baseline: a plain Temporal implementation with the SDK's default settings (baseline/). */
import { fileURLToPath } from 'node:url';
import { startWorkerProgram, type Contender } from './contender.js';

const PROGRAM = fileURLToPath(new URL('./baseline/worker.mjs', import.meta.url));

type BaselineJob = (input: { prompt: string; minMs: number; maxMs: number; ratio: number }) => Promise<{ id: string }>;

export const baseline: Contender = {
  name: 'baseline',
  startWorker(bench) {
    const { temporal, upstream } = bench;
    const env = {
      BENCH_TEMPORAL: temporal.address,
      BENCH_NAMESPACE: temporal.namespace,
      BENCH_UPSTREAM: upstream.url,
      BENCH_KEY: upstream.key,
    };
    return startWorkerProgram(bench, 'baseline', { program: PROGRAM, env, readyText: 'the baseline worker runs' });
  },
  async start({ temporal }, key, { min, max, ratio }) {
    const handle = await temporal.client.workflow.start<BaselineJob>('baselineJob', {
      taskQueue: 'bench-baseline',
      workflowId: `baseline-${key}`,
      args: [{ prompt: key, minMs: min, maxMs: max, ratio }],
    });
    return {
      workflowId: handle.workflowId,
      followUp: (prompt) => handle.signal('followUp', prompt),
      result: async () => (await handle.result()).id,
    };
  },
};
