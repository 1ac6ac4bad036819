import { randomBytes } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { agentJobChildOptions } from '../../src/agent-job/child.js';
import { agentJobWorkflowId } from '../../src/contract.js';
import { AgentJobs, ConfigError } from '../../src/starter.js';
import { readClientConfig } from '../../src/config/client.js';
import { gathered, QUICK, startJobServer } from './job-server.js';
import { useForFile } from '../support/use.js';

const WORD = `zeugma${randomBytes(6).toString('hex')}`;

const server = useForFile(startJobServer);
let jobs: AgentJobs;
beforeAll(async () => {
  jobs = new AgentJobs({ client: server.client, taskQueue: server.taskQueue, hidePrompts: true });
});

/** What lists and pages show of a workflow. */
async function shown(workflowId: string): Promise<string> {
  const handle = server.client.workflow.getHandle(workflowId);
  const description = await handle.describe();
  const metadata = (await handle.query<{ currentDetails?: string }>('__temporal_workflow_metadata')).currentDetails;
  return [await description.staticSummary(), await description.staticDetails(), metadata, description.memo?.['title']]
    .map((text) => String(text))
    .join('\n');
}

test('a job is shown by its key, and by nothing of its prompt', async () => {
  const { projectId } = server;
  const one = await jobs.start({ projectId, key: 'fix login', prompt: `Please ${WORD}`, ...QUICK });
  const request = { projectId, key: 'many', prompt: `And ${WORD}`, ...QUICK };
  const [fate] = await gathered(jobs.startMany([request]));
  const texts = { 'fix login': await shown(one.workflowId), many: await shown(fate!.workflowId!) };
  for (const [key, text] of Object.entries(texts)) {
    expect(text).toContain(`${projectId}: ${key}`);
    expect(text).not.toMatch(new RegExp(`${WORD}|Please|undefined|null`));
  }
  expect((await one.result()).outcome).toBe('completed');
  // The same job for a caller that does not hide: what is shown is no part of the input.
  expect((await server.jobs.start({ projectId, key: 'fix login', prompt: `Please ${WORD}`, ...QUICK })).isNew).toBe(
    false,
  );
  await one.followUp(`then ${WORD}`);
  expect(await shown(one.workflowId)).not.toContain(WORD);
  // Whatever the caller of the follow-up hides.
  await server.jobs.handle(one.workflowId).sendFollowUp(`and ${WORD}`);
  expect((await server.client.workflow.getHandle(one.workflowId).describe()).memo).toMatchObject({ hidePrompts: true });
});

test('a start that says no more than to hide prompts shows none', async () => {
  const { client, taskQueue, projectId } = server;
  const start = (workflowId: string) =>
    client.workflow.start('agentJob', {
      workflowId,
      taskQueue,
      memo: { hidePrompts: true },
      args: [{ projectId, prompt: `Please ${WORD}`, ...QUICK }],
    });
  const ids = { night: agentJobWorkflowId(projectId, 'night'), [`own-${projectId}`]: `own-${projectId}` };
  for (const [subject, workflowId] of Object.entries(ids)) {
    const handle = await start(workflowId);
    await handle.result();
    const text = await shown(workflowId);
    expect(text).toContain(`${projectId}: ${subject}`);
    expect(text).not.toContain(WORD);
  }
});

test('a parent and the environment can ask for it, and another value is invalid', () => {
  const options = agentJobChildOptions({ projectId: 'p', prompt: WORD }, { workflowId: 'own', hidePrompts: true });
  expect([options.staticSummary, options.staticDetails]).toEqual(['p: own', '**Project** p']);
  expect(readClientConfig({ AGENT_JOBS_HIDE_PROMPTS: 'TRUE' }).hidePrompts).toBe(true);
  expect(readClientConfig({}).hidePrompts).toBe(false);
  expect(() => readClientConfig({ AGENT_JOBS_HIDE_PROMPTS: 'yes' })).toThrow(ConfigError);
});
