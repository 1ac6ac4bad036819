import { expect, test } from 'vitest';
import { AGENT_JOB_WORKFLOW, type AgentJobInput, type AgentJobResult } from '../../src/contract.js';
import { failedTasks } from '../support/failed-tasks.js';
import { until } from '../support/worker-process.js';
import { useSystem } from './system.js';

const system = useSystem();

test(
  'a worker killed in the middle of a poll costs the job a delay and nothing else',
  { timeout: 240_000 },
  async () => {
    const { sandbox } = system;
    await sandbox.addFault({ kind: 'hang', operation: 'get' });
    const first = system.startWorker();
    const input: AgentJobInput = { projectId: 'killed-poll', prompt: 'Say hello' };
    const handle = await system.server.client.workflow.start<(input: AgentJobInput) => Promise<AgentJobResult>>(
      AGENT_JOB_WORKFLOW,
      { workflowId: 'agent-job/killed-poll/only', taskQueue: system.server.taskQueue, args: [input] },
    );
    const requests = async () => (await sandbox.counts()).operations;
    await until(async () => (await requests()).get.responses['hang'] === 1, 'a poll to hang', first.output);
    await system.haveWorker();
    await first.kill();

    const result = await handle.result();
    expect(result).toMatchObject({
      outcome: 'completed',
      followUps: [],
      job: { prLink: expect.stringContaining('/pull/') },
    });
    const { create, get, message } = await requests();
    expect({ create, message }).toEqual({
      create: { requests: 1, effects: 1, responses: { '201': 1 } },
      message: { requests: 0, effects: 0, responses: {} },
    });
    expect(get.responses).toEqual({ hang: 1, '200': get.requests - 1 });
    const { events } = await handle.fetchHistory();
    expect(failedTasks(events)).toEqual([]);
    expect(events!.filter((event) => event.activityTaskFailedEventAttributes)).toEqual([]);
  },
);

test(
  'a worker killed between two polls of a job that it holds costs the job a delay and nothing else',
  { timeout: 240_000 },
  async () => {
    const { sandbox, server } = system;
    const projectId = 'killed-lease';
    await sandbox.addScript({ projectId, script: { activeMs: 3_600_000 } });
    const first = system.startWorker();
    const polling = { min: 2_000, max: 2_000 };
    const handle = await server.client.workflow.start<(input: AgentJobInput) => Promise<AgentJobResult>>(
      AGENT_JOB_WORKFLOW,
      {
        workflowId: `agent-job/${projectId}/only`,
        taskQueue: server.taskQueue,
        args: [{ projectId, prompt: 'Say hello', polling }],
      },
    );
    const reads = async () => (await sandbox.requests()).filter((request) => request.projectId === projectId).length;
    await until(async () => (await reads()) >= 3, 'a second poll', first.output);
    await system.haveWorker();
    await first.kill();
    const [job] = await sandbox.creates({ projectId });
    await sandbox.setJob({ id: job!.id, status: 'completed' });

    expect(await handle.result()).toMatchObject({ outcome: 'completed', followUps: [] });
    const { events } = await handle.fetchHistory();
    const attempts = events?.flatMap(({ activityTaskStartedEventAttributes: started }) => started?.attempt ?? []);
    // The create, and the one batch of polls: the server gave it to the second worker.
    expect(attempts).toEqual([1, 2]);
    expect(await sandbox.creates({ projectId })).toHaveLength(1);
  },
);
