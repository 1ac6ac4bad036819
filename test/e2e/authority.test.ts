/** docs/operations.md: what keeps two teams apart, and what does not. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType, TypedSearchAttributes } from '@temporalio/common';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { agentJobSchedule, AgentJobs } from '../../src/starter.js';
import { agentJobStartOptions } from '../../src/agent-job/start-options.js';
import { startSandbox, type Sandbox } from '../../src/testing.js';
import { startAuthorizingServer, type AuthorizingServer } from './authorizing-server.js';
import { runInProcess } from '../cli/run-in-process.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { needToolchain } from '../support/toolchains.js';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.js';

const ROOT = new URL('../../', import.meta.url);
const MOST_MS = 240_000;
const PROJECT = defineSearchAttributeKey('AgentJobProject', SearchAttributeType.KEYWORD);
const QUICK = { polling: { min: 1_000, max: 1_000 }, settle: 0 } as const;
/** The upstream's key of each team's one project: the upstream refuses it for any other. */
const TEAMS = { shop: 'key-of-the-shop', search: 'key-of-the-search' } as const;
type Team = keyof typeof TEAMS;

let sandbox: Sandbox;
let folder: string;
const closing: (() => unknown)[] = [];

beforeAll(async () => {
  const apiKey = Object.entries(TEAMS).map(([team, key]) => ({ key, projectIds: [team] }));
  sandbox = await startSandbox({ apiKey, script: { activeMs: 300 } });
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-authority-'));
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
  await expect.poll(waiting, { timeout: 120_000 }).toMatchObject({
    for: 'key',
    reason: expect.stringContaining('has no key for this project') as string,
  });
  expect(await requestsFor(projectId)).toBe(before);
  await job.cancel();
  await expect(job.result()).rejects.toThrow(/cancel/i);
}

test(
  'a worker with a keys file of its team uses no other key; another team’s task queue serves who names it',
  async () => {
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
    await expect.poll(async () => (await liar.state()).waiting, { timeout: 120_000 }).toMatchObject({ for: 'key' });
    const { searchAttributes } = await server.client.workflow.getHandle(workflowId).describe();
    expect(searchAttributes).toMatchObject({ AgentJobProject: ['search'] });
    await liar.cancel();
    // Temporal lets every caller of a namespace name any task queue.
    expect(await (await start(jobsOn('search'), 'search')).result()).toMatchObject({ outcome: 'completed' });
  },
  MOST_MS,
);

/** A namespace that does not exist: nothing is deleted where that is allowed. */
const SPARE = 'spare';
const OTHER = ['search:admin'];
const COLUMNS = ['no token', 'read', 'write', 'admin', 'of another namespace'];
/** Temporal's answer to a caller without the right. */
const DENIED = /PERMISSION_DENIED/;

/** The roles of the page: whether each call is answered, by the columns above. A role may do what those before do. */
async function roleTable(): Promise<Record<string, readonly string[]>> {
  const page = await readFile(new URL('docs/operations.md', ROOT), 'utf8');
  const roles = ['read', 'write', 'admin'];
  const rows = roles.flatMap((role, first) => {
    const [, calls = ''] = new RegExp(`^- \`${role}\`: (?:also )?([^.]+)\\.$`, 'm').exec(page) ?? [];
    const answers = roles.map((_, at) => (at >= first ? 'yes' : 'no'));
    return calls.split(/;\s+/).map((call) => [call.replaceAll(/\s+/g, ' '), ['no', ...answers, 'no']] as const);
  });
  return Object.fromEntries(rows);
}

/** Each call of the table, on a job of the namespace. Whatever else is wrong with it, it is authorized first. */
function callsOn(client: Client, workflowId: string): Record<string, () => Promise<unknown>> {
  const { workflowService, connection, options } = client;
  const { namespace } = options;
  const jobs = new AgentJobs({ client, taskQueue: 'nobody' });
  const job = jobs.handle(workflowId);
  const raw = client.workflow.getHandle(workflowId);
  const name = randomUUID();
  return {
    'list jobs': () => jobs.listPage(),
    'read a history, with its prompts': () => raw.fetchHistory(),
    'ask a job for its state': () => job.state(),
    'start a job': () => start(jobs, 'shop'),
    'send a follow-up': () => raw.signal('followUp', { prompt: 'more' }),
    'resolve an in-doubt write': () => job.resolve({ action: 'retry' }),
    'cancel a job': () => client.workflow.getHandle(`${workflowId}-none`).cancel(),
    'terminate a job': () => client.workflow.getHandle(`${workflowId}-none`).terminate(),
    'make a schedule': () => jobs.ensureExportSchedule({ projectId: 'shop', paused: true }),
    'poll as a worker': () =>
      connection.withDeadline(Date.now() + 500, () =>
        workflowService.pollWorkflowTaskQueue({ namespace, taskQueue: { name } }),
      ),
    'register search attributes': () =>
      (connection as Connection).operatorService.addSearchAttributes({ namespace, searchAttributes: {} }),
    'delete the namespace': () => (connection as Connection).operatorService.deleteNamespace({ namespace: SPARE }),
  };
}

/** What came of each call. */
async function answersTo(calls: Record<string, () => Promise<unknown>>): Promise<Record<string, 'yes' | 'no'>> {
  const answers = await Promise.all(
    Object.entries(calls).map(async ([name, call]) => {
      const error: unknown = await call().then(
        () => null,
        (reason: unknown) => reason,
      );
      return [name, error !== null && DENIED.test(textOf(error)) ? 'no' : 'yes'] as const;
    }),
  );
  return Object.fromEntries(answers);
}

function textOf(error: unknown): string {
  return error instanceof Error ? `${error.message} ${textOf(error.cause)}` : '';
}

async function connectAs({ address, token }: AuthorizingServer, namespace: string, permissions: string[] | null) {
  const metadata = permissions === null ? {} : { authorization: `Bearer ${token(permissions)}` };
  const connection = await Connection.connect({ address, metadata });
  closing.push(() => connection.close());
  return new Client({ connection, namespace });
}

test(
  'Temporal’s authorizer keeps callers and workers of two teams apart, as the page says of roles',
  async (context) => {
    await needToolchain(context, 'temporalServer');
    const server = await startAuthorizingServer();
    closing.push(() => server.stop());
    const connect = (namespace: string, permissions: string[] | null) => connectAs(server, namespace, permissions);
    const { workflowService } = (await connect('shop', ['temporal-system:admin'])).connection as Connection;
    const workflowExecutionRetentionPeriod = { seconds: 86_400 as never };
    for (const namespace of Object.keys(TEAMS)) {
      await workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod });
    }
    const envOf = (namespace: string) => ({
      TEMPORAL_ADDRESS: server.address,
      TEMPORAL_TLS: 'false',
      TEMPORAL_NAMESPACE: namespace,
    });
    const tokenFile = async (permission: string) => {
      const path = join(folder, `${permission}.token`);
      await writeFile(path, server.token([permission]), { mode: 0o600 });
      return { TEMPORAL_API_KEY_FILE: path };
    };
    const setUp = async (team: string, role: string) =>
      runInProcess(['setup'], { env: { ...envOf(team), TEMPORAL_API_KEY: server.token([`${team}:${role}`]) } });
    const refused = await setUp('shop', 'write');
    expect([refused.code, refused.stderr]).toEqual([expect.any(Number), expect.stringMatching(/unauthorized/i)]);
    expect(refused.code).not.toBe(0);
    for (const team of Object.keys(TEAMS)) {
      await expect.poll(async () => (await setUp(team, 'admin')).code, { timeout: 120_000 }).toBe(0);
    }

    for (const team of ['shop', 'search'] as const) {
      const worker = await startTeamWorker(team, { ...envOf(team), ...(await tokenFile(`${team}:write`)) });
      await worker.wrote('The worker runs');
    }
    const stranger = await startTeamWorker('search', { ...envOf('search'), ...(await tokenFile('shop:write')) });
    expect(await stranger.ended).toBe(1);
    const shop = new AgentJobs({ client: await connect('shop', ['shop:write']) });
    const done = await start(shop, 'shop');
    expect(await done.result()).toMatchObject({ outcome: 'completed' });
    await expectNoForeignKey(shop, 'search');
    // The server's own workers, which run schedules, are let in.
    const job = { projectId: 'shop', name: 'nightly', prompt: 'Review', ...QUICK, taskQueue: shop.taskQueue };
    const nightly = await shop.client.schedule.create(agentJobSchedule({ ...job, spec: {} }));
    await nightly.trigger();
    await expect.poll(async () => (await sandbox.creates({ projectId: 'shop' })).length, { timeout: 120_000 }).toBe(3);

    const table = await roleTable();
    const permissionsOf = [
      null,
      ...['read', 'write', 'admin'].map((role) => [`shop:${role}`, `${SPARE}:${role}`]),
      OTHER,
    ];
    for (const [column, permissions] of permissionsOf.entries()) {
      const client = await connect('shop', permissions);
      const expected = Object.fromEntries(Object.entries(table).map(([call, cells]) => [call, cells[column]]));
      expect([COLUMNS[column], await answersTo(callsOn(client, done.workflowId))]).toEqual([COLUMNS[column], expected]);
    }
    // The very first call of a connection is refused.
    const metadata = { authorization: `Bearer ${server.token(['shop:admin'], -60)}` };
    await expect(Connection.connect({ address: server.address, metadata })).rejects.toThrow('Failed to connect');
  },
  MOST_MS,
);
