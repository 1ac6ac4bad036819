import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  WEBHOOK_DELIVERY_WORKFLOW,
  WEBHOOK_SWEEP_WORKFLOW,
  webhookSweepId,
  type WebhookSweepState,
} from '../../src/contract/webhooks.js';
import { Endpoints } from '../../src/activities/webhooks/endpoints.js';
import { EventSweep } from '../../src/activities/webhooks/sweep.js';
import { startSweep } from '../../src/worker/webhooks.js';
import { QUICK, startJobServer, type JobServer } from '../client/job-server.js';
import { earlyBundle } from '../model/early-bundle.js';
import { createTestWorker } from '../support/worker.js';
import { until } from '../support/worker-process.js';
import { Receiver } from './receiver.js';
import { startWebhookWorker } from './webhook-workers.js';

const MINUTE = 60_000;

let server: JobServer;
let receiver: Receiver;
let endpoints: Endpoints;
let end: () => Promise<void>;
beforeAll(async () => {
  receiver = await new Receiver().start();
  endpoints = new Endpoints({ path: receiver.file, allowPrivate: true });
  server = await startJobServer();
  await server.sandbox.addScript({ promptIncludes: 'Never end', script: { activeMs: 3_600_000 } });
  end = await startWebhookWorker({ ...server, receiver });
}, 3 * MINUTE);
afterAll(async () => {
  await end();
  await server.close();
  await receiver.close();
});

const start = (more: object = {}) => {
  const key = randomUUID();
  return server.jobs.start({ projectId: server.projectId, key, prompt: 'Hide me', ...QUICK, ...more });
};
const toldOf = (type: string, workflowId: string) =>
  receiver.events(type).filter(({ data }) => data.workflowId === workflowId);
const told = async (type: string, workflowId: string) => {
  const isTold = () => toldOf(type, workflowId).length > 0;
  await until(isTold, `${type} of ${workflowId}`, () => JSON.stringify(receiver.received));
  return toldOf(type, workflowId)[0];
};

/** A process that begins to look, from a state. */
class Looker {
  state: WebhookSweepState;
  readonly #sweep: EventSweep;

  constructor(state: WebhookSweepState = { endsFrom: Date.now() - 10_000 }) {
    const { client, taskQueue, jobs } = server;
    this.state = state;
    this.#sweep = new EventSweep({ client, taskQueue, endpoints, webUi: jobs.webUi, now: () => Date.now() });
  }

  async look(): Promise<void> {
    this.state = await this.#sweep.look(this.state);
  }

  async until(type: string, workflowId: string, count = 1): Promise<void> {
    const isTold = async () => {
      await this.look();
      return toldOf(type, workflowId).length >= count;
    };
    await until(isTold, `${type} of ${workflowId}`, () => JSON.stringify(this.state));
  }
}

/** A job whose create is in doubt, and listed so. */
async function inDoubt() {
  const { sandbox, projectId, jobs } = server;
  const key = randomUUID();
  await sandbox.addFault({ kind: 'status', status: 500, operation: 'create', promptIncludes: key });
  const handle = await jobs.start({ projectId, key, prompt: key, ...QUICK });
  const isListed = async () => {
    for await (const job of jobs.list({ projectId, phase: 'needsAttention' })) {
      if (job.workflowId === handle.workflowId) return true;
    }
    return false;
  };
  await until(isListed, 'the doubt to be listed');
  return handle;
}

test.concurrent(
  'an end is told once the run has closed, however it closed, without the prompt',
  async () => {
    const handle = await start({ tags: ['web'], metadata: { ticket: 'T-1' } });
    const { projectId, key, workflowId, runId } = handle;
    const { job } = await handle.result();
    const looker = new Looker();
    await looker.until('agent_job.ended', workflowId);
    expect(toldOf('agent_job.ended', workflowId)).toEqual([
      {
        type: 'agent_job.ended',
        timestamp: expect.stringMatching(/Z$/),
        data: {
          ...{ projectId, key, workflowId, runId, outcome: 'completed', jobId: job!.id, prLink: job!.prLink },
          ...{ tags: ['web'], metadata: { ticket: 'T-1' } },
        },
      },
    ]);
    const terminated = await start({ prompt: 'Never end' });
    await server.client.workflow.getHandle(terminated.workflowId).terminate();
    await looker.until('agent_job.ended', terminated.workflowId);
    expect(toldOf('agent_job.ended', terminated.workflowId)[0].data.outcome).toBe('Terminated');
    expect(JSON.stringify(receiver.received)).not.toContain('Hide me');
  },
  2 * MINUTE,
);

test.concurrent(
  'a follow-up after the end opens another end, and both are told',
  async () => {
    const handle = await start();
    await handle.result();
    await handle.followUp('more', { id: 'more' });
    await handle.result();
    const looker = new Looker();
    await looker.until('agent_job.ended', handle.workflowId, 2);
    const runs = toldOf('agent_job.ended', handle.workflowId).map(({ data }) => data.runId as string);
    expect(new Set(runs).size).toBe(2);
    expect(runs).toContain(handle.runId);
  },
  2 * MINUTE,
);

test.concurrent(
  'a run that is reset is no end: the job goes on',
  async () => {
    const handle = await start({ prompt: 'Never end' });
    await until(async () => (await handle.state()).jobId !== null, 'the job');
    const { workflowService, options } = server.client;
    const { namespace } = options;
    const { runId } = await workflowService.resetWorkflowExecution({
      ...{ namespace, reason: 'a test', requestId: randomUUID(), workflowTaskFinishEventId: 4 as never },
      workflowExecution: { workflowId: handle.workflowId, runId: handle.runId! },
    });
    await server.client.workflow.getHandle(handle.workflowId).terminate();
    await new Looker().until('agent_job.ended', handle.workflowId);
    await new Looker().look();
    expect(toldOf('agent_job.ended', handle.workflowId).map(({ data }) => data.runId as string)).toEqual([runId]);
  },
  2 * MINUTE,
);

test.concurrent(
  'a write in doubt is told with what settles it, once',
  async () => {
    const handle = await inDoubt();
    const { workflowId, projectId, key, runId } = handle;
    const looker = new Looker();
    await looker.until('agent_job.needs_attention', workflowId);
    const { unknown } = await handle.state();
    const [{ data }] = toldOf('agent_job.needs_attention', workflowId);
    expect(data).toMatchObject({ projectId, workflowId, key, runId, unknown, url: handle.url });
    expect(data.command).toBe(`npx agent-jobs resolve ${workflowId} ACTION --since ${unknown!.since}`);
    await new Looker(looker.state).look();
    expect(toldOf('agent_job.needs_attention', workflowId)).toHaveLength(1);
  },
  2 * MINUTE,
);

test.concurrent(
  'an export is told with its snapshots or its failure; what it was part of tells of the rest',
  async () => {
    const range = { projectId: server.projectId, dateFrom: '2026-01-01', dateTo: '2026-01-02' };
    const { workflowId, runId } = await server.jobs.exportVisitors(range);
    await server.client.workflow.getHandle(workflowId).terminate();
    await new Looker().until('visitor_export.ended', workflowId);
    expect(toldOf('visitor_export.ended', workflowId)[0].data).toEqual({
      ...{ projectId: server.projectId, workflowId, runId, snapshots: [], failure: 'Terminated' },
    });
  },
  2 * MINUTE,
);

test(
  'the workflow finds events; one that was ended goes on where it had come to, and tells nothing twice',
  async () => {
    const { client, taskQueue } = server;
    await startSweep(client, taskQueue);
    const sweep = client.workflow.getHandle(webhookSweepId(taskQueue));
    const first = await start();
    await told('agent_job.ended', first.workflowId);
    await sweep.terminate();
    const second = await start();
    await second.result();
    await startSweep(client, taskQueue);
    await startSweep(client, taskQueue);
    await told('agent_job.ended', second.workflowId);
    await sweep.terminate();
    const deliveries = [];
    const query = `WorkflowType = '${WEBHOOK_DELIVERY_WORKFLOW}' AND TaskQueue = '${taskQueue}'`;
    for await (const { memo, workflowId } of client.workflow.list({ query })) deliveries.push({ workflowId, ...memo });
    const ofFirst = deliveries.filter((one) => (one as { of?: string }).of === first.workflowId);
    expect(ofFirst).toHaveLength(1);
  },
  3 * MINUTE,
);

test('the id of the workflow has the name of its task queue as one part', () => {
  expect(webhookSweepId('team/a jobs')).toBe('webhook-sweep/team%2Fa%20jobs');
});

test(
  'a run of the workflow that is full hands over what it knows: nothing is told twice, or left out',
  async () => {
    const { client, nativeConnection: connection } = server;
    const taskQueue = `test-${randomUUID()}`;
    const workflowBundle = await earlyBundle();
    const workflows = await createTestWorker({ connection, taskQueue, activities: {}, workflowBundle });
    const running = workflows.run();
    const options = { nativeConnection: connection, taskQueue, receiver };
    const terminated = async () => {
      const args = [{ projectId: 'acme', prompt: 'Hide me' }];
      const job = await client.workflow.start('agentJob', { workflowId: randomUUID(), taskQueue, args });
      await job.terminate();
      return job.workflowId;
    };
    const endFirst = await startWebhookWorker(options);
    const workflowId = webhookSweepId(taskQueue);
    const run = { workflowId, taskQueue, args: [null], memo: { eventsPerRun: 8 } };
    const { firstExecutionRunId } = await client.workflow.start(WEBHOOK_SWEEP_WORKFLOW, run);
    const first = await terminated();
    await told('agent_job.ended', first);
    await endFirst();
    const second = await terminated();
    const endSecond = await startWebhookWorker(options);
    await told('agent_job.ended', second);
    const sweep = client.workflow.getHandle(workflowId);
    expect((await sweep.describe()).runId).not.toBe(firstExecutionRunId);
    const requests = receiver.received.filter(({ event }) => event.data.workflowId === first);
    expect(requests).toHaveLength(1);
    await sweep.terminate();
    workflows.shutdown();
    await Promise.all([running, endSecond()]);
  },
  3 * MINUTE,
);
