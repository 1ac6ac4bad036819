import { randomUUID } from 'node:crypto';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SEARCH_ATTRIBUTE } from '../../src/contract.js';
import { startSandbox, type Sandbox } from '../../src/sandbox/sandbox.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { connectDevServer, type TestServer } from '../support/dev-server.js';
import { runInProcess } from './run-in-process.js';

const MINUTE = 60_000;
const DAY_SECONDS = 86_400;

let server: TestServer;
let sandbox: Sandbox;
beforeAll(async () => {
  server = await connectDevServer();
  sandbox = await startSandbox();
}, 2 * MINUTE);
afterAll(async () => {
  await sandbox.close();
  await server.close();
});

function setup(namespace: string, env: Record<string, string> = {}) {
  return runInProcess(['setup'], { env: { TEMPORAL_ADDRESS: server.address, TEMPORAL_NAMESPACE: namespace, ...env } });
}

async function createNamespace(retentionDays: number): Promise<string> {
  const namespace = `setup-${randomUUID()}`;
  await server.client.workflowService.registerNamespace({
    namespace,
    workflowExecutionRetentionPeriod: { seconds: retentionDays * DAY_SECONDS } as never,
  });
  // A server looks for new namespaces every few seconds.
  const describing = () => server.client.workflowService.describeNamespace({ namespace });
  const answers = () =>
    describing().then(
      () => true,
      () => false,
    );
  await expect.poll(answers, { timeout: 120_000 }).toBe(true);
  return namespace;
}

test(
  'a fresh namespace gets the search attributes once, and is warned of a short memory',
  async () => {
    const namespace = await createNamespace(3);
    const first = await setup(namespace);
    expect(first.stdout).toContain(`answers, namespace "${namespace}"`);
    expect(first.stdout).toContain(`registered ${Object.values(SEARCH_ATTRIBUTE).join(', ')}`);
    expect(first.stdout).toContain('a key is remembered for 3 days after its job ended');
    expect(first.stdout).toContain('below 30 days');
    expect(first.stdout).toContain('not checked: UPSTREAM_BASE_URL is not set here');
    expect(first.code).toBe(0);
    expect((await setup(namespace)).stdout).toContain('were registered already');
  },
  2 * MINUTE,
);

test(
  'a namespace that is not there is not said to be there',
  async () => {
    const namespace = `nowhere-${randomUUID()}`;
    const { code, stdout, stderr } = await setup(namespace);
    expect(stdout).toBe('');
    expect(stderr).toContain(namespace);
    expect(code).toBe(1);
  },
  2 * MINUTE,
);

test(
  'search attributes of another type are told, with what to do, and exit 1',
  async () => {
    const namespace = await createNamespace(30);
    const [TEXT, KEYWORD_LIST] = [1, 7]; // temporal.api.enums.v1.IndexedValueType
    await server.client.connection.operatorService.addSearchAttributes({
      namespace,
      searchAttributes: { [SEARCH_ATTRIBUTE.waitingFor]: KEYWORD_LIST!, [SEARCH_ATTRIBUTE.status]: TEXT! },
    });
    const { code, stdout } = await setup(namespace);
    expect(stdout).toContain('registered AgentJobProject');
    expect(stdout).toContain('another type than jobs set: AgentJobStatus is Text, AgentJobWaitingFor is KeywordList');
    const removal = (name: string) =>
      `temporal operator search-attribute remove --namespace "${namespace}" --name ${name}`;
    expect(stdout).toContain(removal('AgentJobStatus'));
    expect(stdout).not.toContain(removal('AgentJobBatch'));
    expect(code).toBe(1);
    // As the commands say.
    await server.client.connection.operatorService.removeSearchAttributes({
      namespace,
      searchAttributes: [SEARCH_ATTRIBUTE.waitingFor, SEARCH_ATTRIBUTE.status],
    });
    const again = await setup(namespace);
    expect(again.stdout).toContain('registered AgentJobStatus, AgentJobWaitingFor');
    expect(again).toMatchObject({ code: 0, stderr: '' });
  },
  2 * MINUTE,
);

test(
  'a namespace that takes no more search attributes is told, with what makes room, and exit 1',
  async () => {
    const namespace = await createNamespace(30);
    const { operatorService } = server.client.connection;
    const KEYWORD = 2;
    // With SQL visibility a namespace takes ten, of which jobs need eight.
    const others = ['TheirsA', 'TheirsB', 'TheirsC', 'TheirsD'];
    const searchAttributes = Object.fromEntries(others.map((name) => [name, KEYWORD]));
    await operatorService.addSearchAttributes({ namespace, searchAttributes });
    const { code, stdout } = await setup(namespace);
    expect(code).toBe(1);
    expect(stdout).toContain('it takes 10 of type Keyword, and 4 are others: TheirsA, TheirsB, TheirsC, TheirsD');
    expect(stdout).toContain('Remove 2 of them that nothing uses, then run "agent-jobs setup" again:');
    const removal = (name: string) =>
      `temporal operator search-attribute remove --namespace "${namespace}" --name ${name}`;
    for (const name of others) expect(stdout).toContain(removal(name));
    expect(stdout).toContain('Or give the jobs a namespace of their own:');
    expect(stdout).toContain('temporal operator namespace create --namespace agent-jobs --retention 30d');
    expect(stdout).not.toContain('search-attribute create');
    // As the commands say.
    await operatorService.removeSearchAttributes({ namespace, searchAttributes: others.slice(0, 2) });
    const again = await setup(namespace);
    expect(again.stdout).toContain(`registered ${Object.values(SEARCH_ATTRIBUTE).join(', ')}`);
    expect(again).toMatchObject({ code: 0, stderr: '' });
  },
  2 * MINUTE,
);

test(
  'an upstream that answers is told, one that refuses the key or is silent is an error',
  async () => {
    const env = { UPSTREAM_BASE_URL: sandbox.url, ADMIN_API_KEY: sandbox.apiKey };
    const good = await setup(server.namespace, env);
    expect(good.stdout).toContain(`${sandbox.url} answers`);
    expect(good.stderr).toBe('');
    expect(good.code).toBe(0);
    const refused = await setup(server.namespace, { ...env, ADMIN_API_KEY: 'not-this-one' });
    expect(refused.stdout).toMatch(/answered 401 .*; check the key/);
    expect(refused.stdout).not.toContain('not-this-one');
    expect(refused.code).toBe(1);
    const keys = join(await mkdtemp(join(tmpdir(), 'agent-jobs-test-')), 'keys.json');
    await writeFile(keys, JSON.stringify({ acme: sandbox.apiKey }));
    const byProject = { UPSTREAM_BASE_URL: sandbox.url, PROJECT_KEYS_FILE: keys };
    expect(await setup(server.namespace, byProject)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('name one with --project') as string,
    });
    await sandbox.addFault({ kind: 'status', status: 400 });
    expect((await setup(server.namespace, env)).code).toBe(0);
    const silent = await setup(server.namespace, { ...env, UPSTREAM_BASE_URL: 'http://127.0.0.1:1' });
    expect(silent.code).toBe(1);
  },
  3 * MINUTE,
);

test(
  'the web UI is shown with its lists, and none is guessed',
  async () => {
    const lists = async (env: Record<string, string>) => (await setup(server.namespace, env)).stdout;
    expect(await lists({ AGENT_JOBS_WEB_UI_URL: 'http://ui' })).toMatch(/^ok {4}Web UI +http:\/\/ui\/namespaces/m);
    expect(await lists({})).toMatch(/^skip {2}Web UI +not known: AGENT_JOBS_WEB_UI_URL names it$/m);
  },
  2 * MINUTE,
);

test('where the server refuses, the error holds the commands that somebody else can run', async () => {
  const denied = () => Promise.reject(Object.assign(new Error('Request unauthorized'), { code: 7 }));
  const connection = { operatorService: { listSearchAttributes: denied, addSearchAttributes: denied } };
  await expect(ensureSearchAttributes(connection, 'team.acct')).rejects.toMatchObject({
    name: 'SearchAttributesRefusedError',
    commands: {
      selfHosted: expect.arrayContaining([
        'temporal operator search-attribute create --namespace "team.acct" --name AgentJobProject --type Keyword',
      ]),
      cloud: expect.stringContaining('tcld namespace search-attributes add --namespace "team.acct"'),
    },
  });
});
