/** Our own worker as it is built, called through the starter as a service would. */
import { fileURLToPath, pathToFileURL } from 'node:url';
import { AgentJobs } from '../src/starter.js';
import { startWorkerProgram, type Bench, type Contender } from './contender.js';

const PROGRAM = fileURLToPath(new URL('../dist/worker.js', import.meta.url));
const TASK_QUEUE = 'bench-ours';
const PROJECT = 'bench';
/** As the image and the compose file set them. */
const PROCESS_SETTINGS = { MALLOC_TRIM_THRESHOLD_: '131072', NODE_OPTIONS: '--max-old-space-size=340' };

/** The task queue of the worker below. */
export function oursClient({ temporal }: Bench): AgentJobs {
  return new AgentJobs({ client: temporal.client, taskQueue: TASK_QUEUE });
}

export const ours: Contender = {
  name: 'agent-jobs',
  startWorker(bench) {
    const { folder, temporal, upstream, budget } = bench;
    const env = {
      ...PROCESS_SETTINGS,
      TEMPORAL_ADDRESS: temporal.address,
      TEMPORAL_NAMESPACE: temporal.namespace,
      AGENT_JOBS_TASK_QUEUE: TASK_QUEUE,
      UPSTREAM_BASE_URL: upstream.url,
      ADMIN_API_KEY: upstream.key,
      SNAPSHOTS_URL: pathToFileURL(`${folder}/snapshots`).href,
      ...(budget === 'unlimited' && { CREATES_PER_HOUR: budget, MESSAGES_PER_HOUR: budget }),
    };
    return startWorkerProgram(bench, 'ours', { program: PROGRAM, env, readyText: 'The worker runs' });
  },
  async start(bench, key, polling) {
    // The sandbox's jobs do not change at a follow-up here, so nothing is to settle; the baseline doesn't either.
    const input = { projectId: PROJECT, prompt: key, polling, settle: 0 };
    const job = await oursClient(bench).start({ key, ...input });
    return {
      workflowId: job.workflowId,
      followUp: (prompt) => job.followUp(prompt),
      result: async () => (await job.result()).jobId ?? '',
    };
  },
};
