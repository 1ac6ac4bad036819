/** The faults that are recorded, one run each, with the alerts that each must make fire, and no other. */
import { setTimeout as delay } from 'node:timers/promises';
import { recordUntil } from './recorder.js';
import { World, startServer } from './world.js';
import { exportScenarios } from './export-scenarios.js';
import { exportDays, oneWorker, pause, type Scenario } from './scenario.js';
import { webhookScenarios } from './webhook-scenarios.js';
import { workerScenarios } from './worker-scenarios.js';

const STATUS = (operation: 'create' | 'get', status: number, more: object = {}) =>
  ({ kind: 'status', operation, status, count: 100_000, ...more }) as const;
const HEALTHY_MIN = Number(process.env['HEALTHY_MINUTES'] ?? 60);
const EVERY_20_S = 3;

/** Two workers, a job every 20 seconds, a follow-up to every fifth, an export and a Schedule. */
const healthy: Scenario = {
  name: 'healthy',
  fault: 'none: two workers with a job every 20 seconds, follow-ups, exports and a Schedule',
  fires: [],
  async record(server) {
    const world = await World.open(server, 'healthy');
    try {
      const both = { env: { WORKER_ROLES: 'jobs,exports' } };
      const first = await world.startWorker(both);
      await exportDays(world, 'acme', 3);
      await world.jobs.ensureExportSchedule({ projectId: 'acme', timeZone: 'UTC' });
      const second = await world.startWorker(both);
      await first.kill(); // It looked for snapshots when there was none yet.
      const third = await world.startWorker(both);
      const run = async () => {
        for (let n = 0; n < HEALTHY_MIN * EVERY_20_S; n++) {
          const job = await world.startJob('acme', `job-${n}`);
          if (n % 5 === 0) await job.followUp('And a test');
          await delay(20_000);
        }
      };
      return await recordUntil(run(), { 'worker-1:9464': second.port, 'worker-2:9464': third.port });
    } finally {
      await world.close();
    }
  },
};

const inDoubt: Scenario = {
  name: 'in-doubt',
  fault: 'three creates are answered 500: whether the upstream took them, nobody knows',
  fires: ['AgentJobsNeedAttention', 'AgentJobsWritesInDoubt'],
  record: oneWorker('in-doubt', async (world) => {
    await pause(1);
    await world.sandbox.addFault(STATUS('create', 500));
    for (const key of ['a', 'b', 'c']) await world.startJob('acme', key);
    await pause(20);
  }),
};

/** The clock of the worker's machine is ahead, as if the hours had passed: the figures are its own. */
const hoursLater: Scenario = {
  name: 'hours-later',
  fault: 'a create in doubt and one that is throttled for a day, seen by a worker whose clock is 5 hours ahead',
  fires: ['AgentJobsNeedAttention', 'AgentJobsInDoubtForHours', 'AgentJobsCreatesWait'],
  async record(server) {
    const world = await World.open(server, 'hours-later');
    try {
      await world.sandbox.addFault(STATUS('create', 500, { projectId: 'doubtful' }));
      await world.sandbox.addFault(STATUS('create', 429, { projectId: 'busy', retryAfter: 86_400 }));
      const first = await world.startWorker();
      await world.startJob('doubtful', 'a');
      await world.startJob('busy', 'a');
      await first.wrote('A write is in doubt');
      await first.wrote('A write waits');
      const second = await world.startWorker({ hoursAhead: 5 });
      return await recordUntil(pause(20), { 'worker-1:9464': second.port });
    } finally {
      await world.close();
    }
  },
};

const keyRefused: Scenario = {
  name: 'key-refused',
  fault: 'the upstream answers 401 to a project',
  fires: ['AgentJobsKeyRefused'],
  record: oneWorker('key-refused', async (world) => {
    await world.startJob('healthy', 'a');
    await pause(1);
    await world.sandbox.addFault({ kind: 'status', projectId: 'acme', status: 401, count: 100_000 });
    await world.startJob('acme', 'a');
    await pause(20);
  }),
};

const rejected: Scenario = {
  name: 'rejected',
  fault: 'the upstream forbids a project (403), and has lost a job that it took (404)',
  fires: ['AgentJobsForbidden', 'AgentJobsEndedBadly'],
  record: oneWorker('rejected', async (world) => {
    await world.sandbox.setScript({ activeMs: 3_600_000 });
    await world.startJob('lost', 'a');
    await pause(1);
    await world.sandbox.addFault(STATUS('create', 403, { projectId: 'forbidden' }));
    await (await world.startJob('forbidden', 'a')).result().catch(() => {});
    const [created] = await world.sandbox.creates({ projectId: 'lost' });
    await world.sandbox.removeJob(created!.id);
    await pause(8);
  }),
};

const upstreamFails: Scenario = {
  name: 'upstream-fails',
  fault: 'the upstream answers 503 to every read, then takes no connection any more',
  fires: ['AgentJobsUpstreamFails', 'AgentJobsWaitForUpstream'],
  record: oneWorker('upstream-fails', async (world) => {
    await world.sandbox.setScript({ activeMs: 3_600_000 });
    for (let n = 0; n < 10; n++) await world.startJob('acme', `job-${n}`);
    await pause(3);
    await world.sandbox.addFault(STATUS('get', 503));
    await pause(8);
    await world.sandbox.addFault({ kind: 'reset', at: 'connect', count: 100_000 });
    for (let n = 0; n < 3; n++) await world.startJob('acme', `late-${n}`);
    await pause(18);
  }),
};

const upstreamSlow: Scenario = {
  name: 'upstream-slow',
  fault: 'the upstream answers every read after 15 seconds',
  fires: ['AgentJobsUpstreamSlow'],
  record: oneWorker('upstream-slow', async (world) => {
    await world.sandbox.setScript({ activeMs: 3_600_000 });
    for (let n = 0; n < 10; n++) await world.startJob('acme', `job-${n}`);
    await pause(2);
    await world.sandbox.addFault({ kind: 'delay', operation: 'get', delayMs: 15_000, count: 100_000 });
    await pause(14);
  }),
};

const throttled: Scenario = {
  name: 'throttled',
  fault: 'of 100 creates the upstream takes 10, and CREATES_PER_HOUR is set to 1,000',
  fires: ['AgentJobsThrottled'],
  async record(server) {
    const world = await World.open(server, 'throttled');
    try {
      await world.sandbox.setRateLimits({ create: 10, retryAfter: 'none' });
      const worker = await world.startWorker({ env: { CREATES_PER_HOUR: '1000' } });
      const run = async () => {
        await pause(1);
        for (let n = 0; n < 100; n++) await world.startJob('acme', `job-${n}`);
        await pause(12);
      };
      return await recordUntil(run(), { 'worker-1:9464': worker.port });
    } finally {
      await world.close();
    }
  },
};

const temporalAway: Scenario = {
  name: 'temporal-away',
  fault: 'the Temporal server is stopped after two minutes',
  fires: ['AgentJobsWorkerNotReady', 'AgentJobsFiguresStale'],
  async record(_shared, folder) {
    const server = await startServer(folder);
    const world = await World.open(server, 'away');
    try {
      const worker = await world.startWorker();
      await world.startJob('acme', 'a');
      const run = pause(2)
        .then(() => server.stop())
        .then(() => pause(15));
      return await recordUntil(run, { 'worker-1:9464': worker.port });
    } finally {
      await world.close();
      await server.stop();
    }
  },
};

export const scenarios: Scenario[] = [
  healthy,
  inDoubt,
  hoursLater,
  keyRefused,
  rejected,
  upstreamFails,
  upstreamSlow,
  throttled,
  temporalAway,
  ...workerScenarios,
  ...exportScenarios,
  ...webhookScenarios,
];
