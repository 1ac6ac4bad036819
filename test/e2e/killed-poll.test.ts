import { expect, test } from 'vitest';
import { AGENT_JOB_WORKFLOW, type AgentJobInput, type AgentJobResult } from '../../src/contract.js';
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
    const second = system.startWorker();
    await second.wrote('The worker runs');
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
    const troubles = events?.filter(
      ({ workflowTaskFailedEventAttributes: task, activityTaskFailedEventAttributes: activity }) => task ?? activity,
    );
    expect(troubles).toEqual([]);
  },
);
