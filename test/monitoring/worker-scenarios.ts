/** Faults of the workers themselves: killed, restarted, starved, or with a bug in workflow code. */
import { cpSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { distFolder } from '../support/worker-process.js';
import { recordUntil } from './recorder.js';
import { oneWorker, pause, type Scenario } from './scenario.js';
import { World } from './world.js';

const workersKilled: Scenario = {
  name: 'workers-killed',
  fault: 'of two workers one is killed after two minutes, the other one ten minutes later',
  fires: ['AgentJobsWorkerDown', 'AgentJobsNoWorker'],
  async record(server) {
    const world = await World.open(server, 'killed');
    try {
      const [first, second] = [await world.startWorker(), await world.startWorker()];
      const run = async () => {
        await pause(2);
        await first.kill();
        await pause(10);
        await second.kill();
        await pause(8);
      };
      return await recordUntil(run(), { 'worker-1:9464': first.port, 'worker-2:9464': second.port });
    } finally {
      await world.close();
    }
  },
};

const restarts: Scenario = {
  name: 'restarts',
  fault: 'a worker is killed and started again every three minutes',
  fires: ['AgentJobsWorkerRestarts'],
  record: oneWorker('restarts', async (world, first) => {
    let worker = first;
    for (let n = 0; n < 6; n++) {
      await pause(3);
      await worker.kill();
      worker = await world.startWorker({ env: { METRICS_ADDRESS: `127.0.0.1:${first.port}` } });
    }
    await pause(3);
  }),
};

const workflowBug: Scenario = {
  name: 'workflow-bug',
  fault: 'the workflow code throws at its first line, and its tasks fail',
  fires: ['AgentJobsWorkflowTasksFail'],
  async record(server, folder) {
    const world = await World.open(server, 'bug');
    try {
      const worker = await world.startWorker({ dist: brokenBuild(folder) });
      const run = async () => {
        await pause(2);
        await world.startJob('acme', 'a');
        await pause(15);
      };
      return await recordUntil(run(), { 'worker-1:9464': worker.port });
    } finally {
      await world.close();
    }
  },
};

/** A copy of the build whose workflow throws at its first line. */
function brokenBuild(folder: string): string {
  const copy = mkdtempSync(join(folder, 'broken-build-'));
  const dist = join(copy, 'dist');
  cpSync(distFolder, dist, { recursive: true });
  for (const name of ['node_modules', 'package.json']) symlinkSync(join(dirname(distFolder), name), join(copy, name));
  const bundle = join(dist, 'workflow-bundle.js');
  const code = readFileSync(bundle, 'utf8');
  const broken = code.replace('async function agentJob(input) {', '$& throw new TypeError("a bug of ours");');
  if (broken === code) throw new Error('the bundle has no agentJob to break');
  writeFileSync(bundle, broken);
  return dist;
}

const STOPPED_MS = 20_000;
const RUNNING_MS = 10_000;
const STARVED_MIN = 22;

const starved: Scenario = {
  name: 'starved',
  fault: 'a worker is stopped for 20 of every 30 seconds, as on a machine that gives it no time',
  fires: ['AgentJobsPollsLate', 'AgentJobsTasksWait'],
  record: oneWorker('starved', async (world, worker) => {
    await world.sandbox.setScript({ activeMs: 3_600_000 });
    for (let n = 0; n < 10; n++) await world.startJob('acme', `job-${n}`);
    await pause(2);
    const end = Date.now() + STARVED_MIN * 60_000;
    for (let n = 0; Date.now() < end; n++) {
      worker.signal('SIGSTOP');
      await delay(STOPPED_MS / 2);
      await world.startJob('acme', `more-${n}`);
      await delay(STOPPED_MS / 2);
      worker.signal('SIGCONT');
      await delay(RUNNING_MS);
    }
  }),
};

export const workerScenarios: Scenario[] = [workersKilled, restarts, workflowBug, starved];
