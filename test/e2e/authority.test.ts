/** docs/operations.md: what keeps two teams apart, and what does not. */
import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { defineSearchAttributeKey, SearchAttributeType, TypedSearchAttributes } from '@temporalio/common';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import { agentJobStartOptions } from '../../src/agent-job/start-options.js';
import { startSandbox, type Sandbox } from '../../src/testing.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.js';
import { newFolder } from '../support/folder.js';

const ROOT = new URL('../../', import.meta.url);
const PROJECT = defineSearchAttributeKey('AgentJobProject', SearchAttributeType.KEYWORD);
const QUICK = { polling: { min: 1_000, max: 1_000 }, settle: 0 } as const;
/** The upstream's key of each team's one project: the upstream refuses it for any other. */
const TEAMS = { shop: 'key-of-the-shop', search: 'key-of-the-search' } as const;
type Team = keyof typeof TEAMS;

let sandbox: Sandbox;
const folder = newFolder();
const closing: (() => unknown)[] = [];

beforeAll(async () => {
  const apiKey = Object.entries(TEAMS).map(([team, key]) => ({ key, projectIds: [team] }));
  sandbox = await startSandbox({ apiKey, script: { activeMs: 300 } });
});
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});
afterAll(() => sandbox?.close());

/** A worker of the team by the example's environment, with the keys of this test. */
async function startTeamWorker(team: Team, env: Record<string, string>): Promise<WorkerProcess> {
  const example = parseEnv(await readFile(new URL(`deploy/teams/${team}.env`, ROOT), 'utf8')) as Record<string, string>;
  expect(Object.keys(example)).not.toContain('ADMIN_API_KEY');
  const keysFile = join(folder, `${team}.json`);
  await writeFile(keysFile, JSON.stringify({ [team]: TEAMS[team] }), { mode: 0o600 });
  const own = { PROJECT_KEYS_FILE: keysFile, SNAPSHOTS_URL: '', UPSTREAM_BASE_URL: sandbox.url };
  const worker = startWorkerProcess({ ...example, ...own, ...env });
  closing.push(() => worker.kill());
  return worker;
}

const start = (jobs: AgentJobs, projectId: string) =>
  jobs.start({ key: randomUUID(), projectId, prompt: 'Fix it', ...QUICK });

async function requestsFor(projectId: string): Promise<number> {
  const requests = await sandbox.requests();
  return requests.filter(({ path }) => path.includes(`/agent/${projectId}/`)).length;
}

/** A job of a project whose key the worker lacks waits and says so, sends nothing, and ends when it is cancelled. */
async function expectNoForeignKey(jobs: AgentJobs, projectId: string): Promise<void> {
  const before = await requestsFor(projectId);
  const job = await start(jobs, projectId);
  const waiting = async () => (await job.state()).waiting;
  await expect.poll(waiting).toMatchObject({
    for: 'key',
    reason: expect.stringContaining('has no key for this project') as string,
  });
  expect(await requestsFor(projectId)).toBe(before);
  await job.cancel();
  await expect(job.result()).rejects.toThrow(/cancel/i);
}

test('a worker with a keys file of its team uses no other key; a team’s task queue serves who names it', async () => {
  const server: TestServer = await connectDevServer();
  closing.push(() => server.close());
  const queueOf = (team: Team) => `${server.taskQueue}-${team}`;
  const place = { TEMPORAL_ADDRESS: server.address, TEMPORAL_NAMESPACE: server.namespace, TEMPORAL_API_KEY_FILE: '' };
  for (const team of ['shop', 'search'] as const) {
    const worker = await startTeamWorker(team, { ...place, AGENT_JOBS_TASK_QUEUE: queueOf(team) });
    await worker.wrote('The worker runs');
  }
  const jobsOn = (team: Team) => new AgentJobs({ client: server.client, taskQueue: queueOf(team) });
  expect(await (await start(jobsOn('shop'), 'shop')).result()).toMatchObject({ outcome: 'completed' });
  await expectNoForeignKey(jobsOn('shop'), 'search');
  await expectNoForeignKey(jobsOn('shop'), '__proto__');
  // A search attribute that names another project changes no key, and is corrected.
  const input = { projectId: 'search', prompt: 'Fix it', ...QUICK };
  const options = agentJobStartOptions(input, { key: randomUUID(), taskQueue: queueOf('shop') });
  const typedSearchAttributes = new TypedSearchAttributes([{ key: PROJECT, value: 'shop' }]);
  const { workflowId } = await server.client.workflow.start('agentJob', { ...options, typedSearchAttributes });
  const liar = jobsOn('shop').handle(workflowId);
  await expect.poll(async () => (await liar.state()).waiting).toMatchObject({ for: 'key' });
  const { searchAttributes } = await server.client.workflow.getHandle(workflowId).describe();
  expect(searchAttributes).toMatchObject({ AgentJobProject: ['search'] });
  await liar.cancel();
  // Temporal lets every caller of a namespace name any task queue.
  expect(await (await start(jobsOn('search'), 'search')).result()).toMatchObject({ outcome: 'completed' });
});
