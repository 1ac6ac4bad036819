/** Faults of the nightly exports: days without one, data that move, a store that refuses, no worker. */
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { recordUntil } from './recorder.js';
import { exportDays, pause, type Scenario } from './scenario.js';
import { World } from './world.js';

const EXPORTS = { env: { WORKER_ROLES: 'exports' } };
const BOTH = { env: { WORKER_ROLES: 'jobs,exports' } };

const exportsMissing: Scenario = {
  name: 'exports-missing',
  fault: 'the last four nights exported nothing, though there is a Schedule',
  fires: ['AgentJobsExportsTooOld', 'AgentJobsExportGaps'],
  async record(server) {
    const world = await World.open(server, 'missing');
    try {
      const first = await world.startWorker(BOTH);
      await exportDays(world, 'acme', 2, 4);
      await world.jobs.ensureExportSchedule({ projectId: 'acme', timeZone: 'UTC', paused: true });
      await first.kill();
      const second = await world.startWorker(BOTH);
      return await recordUntil(pause(14), { 'worker-1:9464': second.port });
    } finally {
      await world.close();
    }
  },
};

const exportsFail: Scenario = {
  name: 'exports-fail',
  fault:
    'an export’s data never stop moving; then the store refuses to write; then the worker of the exports is killed',
  fires: ['AgentJobsSnapshotInDoubt', 'AgentJobsExportFails', 'AgentJobsNoExportWorker', 'AgentJobsWorkerDown'],
  async record(server) {
    const world = await World.open(server, 'fail');
    try {
      const [jobs, exports] = [await world.startWorker(), await world.startWorker(EXPORTS)];
      const run = async () => {
        await pause(2);
        await world.sandbox.setVisitors({ rows: 1_200, drift: [{ kind: 'swap', times: 1_000 }] });
        await exportDays(world, 'acme', 1, 9).catch(() => {});
        await pause(2);
        const snapshots = join(world.folder, 'snapshots');
        await rm(snapshots, { recursive: true });
        await writeFile(snapshots, 'a file where the folder was');
        await world.sandbox.setVisitors({ rows: 100 });
        // Nobody waits for its result, which does not come.
        await world.jobs.exportVisitors({ projectId: 'other', dateFrom: '2026-01-01', dateTo: '2026-01-02' });
        await pause(3);
        await exports.kill();
        await pause(20);
      };
      return await recordUntil(run(), { 'worker-1:9464': jobs.port, 'worker-2:9464': exports.port });
    } finally {
      await world.close();
    }
  },
};

export const exportScenarios: Scenario[] = [exportsMissing, exportsFail];
