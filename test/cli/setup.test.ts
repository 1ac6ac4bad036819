import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { SEARCH_ATTRIBUTE } from '../../src/contract.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { connectDevServer } from '../support/dev-server.js';
import { runInProcess } from './run-in-process.js';
import { useForFile } from '../support/use.js';

const ALL = `registered ${Object.values(SEARCH_ATTRIBUTE).join(', ')}`;
/** `temporal.api.enums.v1.IndexedValueType`. */
const KEYWORD = 2;
const INT = 3;

const server = useForFile(connectDevServer);

function setup(namespace: string, env: Record<string, string> = {}) {
  return run('setup', namespace, env);
}

function run(command: string, namespace: string, env: Record<string, string> = {}) {
  return runInProcess([command], { env: { TEMPORAL_ADDRESS: server.address, TEMPORAL_NAMESPACE: namespace, ...env } });
}

/** A namespace with these search attributes. */
async function createNamespace(retentionDays: number, searchAttributes: Record<string, number> = {}): Promise<string> {
  const namespace = `setup-${randomUUID()}`;
  const { workflowService, connection } = server.client;
  await workflowService.registerNamespace({
    namespace,
    workflowExecutionRetentionPeriod: { seconds: retentionDays * 86_400 } as never,
  });
  // A server looks for new namespaces every few seconds.
  const known = () => workflowService.describeNamespace({ namespace }).catch(() => null);
  await expect.poll(known).not.toBeNull();
  if (Object.keys(searchAttributes).length > 0) {
    await connection.operatorService.addSearchAttributes({ namespace, searchAttributes });
  }
  return namespace;
}

const remove = (namespace: string, searchAttributes: string[]) =>
  server.client.connection.operatorService.removeSearchAttributes({ namespace, searchAttributes });

test('a fresh namespace gets the search attributes once, and is warned of a short memory', async () => {
  const namespace = await createNamespace(3);
  const first = await setup(namespace, { AGENT_JOBS_WEB_UI_URL: 'http://ui' });
  expect(first.stdout).toContain(`answers, namespace "${namespace}"`);
  expect(first.stdout).toContain(ALL);
  expect(first.stdout).toContain('a key is remembered for 3 days after its job ended');
  expect(first.stdout).toContain('below 30 days');
  expect(first.stdout).toMatch(/^ok {4}Web UI +http:\/\/ui\/namespaces/m);
  expect(first.code).toBe(0);
  const again = await setup(namespace);
  expect(again.stdout).toContain('all are registered');
  expect(again.stdout).toMatch(/^skip {2}Web UI +not known: AGENT_JOBS_WEB_UI_URL names it$/m);
});

test('a namespace that is not there is not said to be there', async () => {
  const namespace = `nowhere-${randomUUID()}`;
  const { code, stdout, stderr } = await setup(namespace);
  expect([code, stdout, stderr]).toEqual([1, '', expect.stringContaining(namespace)]);
});

test('a namespace that takes no more search attributes says so, with what makes room, and exits 1', async () => {
  // With SQL visibility a namespace takes ten, and jobs need eight.
  const others = ['TheirsA', 'TheirsB', 'TheirsC', 'TheirsD'];
  const namespace = await createNamespace(30, Object.fromEntries(others.map((name) => [name, KEYWORD])));
  const { code, stdout } = await setup(namespace);
  expect(code).toBe(1);
  for (const text of [
    'cannot have more than 10 search attribute of type Keyword',
    'Remove search attributes that nothing uses, then run "agent-jobs setup" again:',
    'Or give the jobs a namespace of their own:',
    'temporal operator namespace create --namespace agent-jobs --retention 30d',
  ]) {
    expect(stdout).toContain(text);
  }
  expect(stdout).not.toContain('search-attribute create');
  // As the commands say.
  await remove(namespace, others.slice(0, 2));
  const again = await setup(namespace);
  expect(again).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining(ALL) as string });
});

test('search attributes of another type are named, with what mends them, and exit 1', async () => {
  const { phase, tags } = SEARCH_ATTRIBUTE;
  const namespace = await createNamespace(30, { [phase]: INT, [tags]: KEYWORD });
  const { code, stdout } = await setup(namespace);
  expect(code).toBe(1);
  const found = `namespace "${namespace}" has AgentJobPhase as Int, AgentJobTags as Keyword`;
  const remedy = [
    'jobs need AgentJobPhase as Keyword, AgentJobTags as KeywordList',
    `temporal operator search-attribute remove --namespace "${namespace}" --name AgentJobPhase --name AgentJobTags`,
    'npx agent-jobs setup',
  ];
  for (const text of [found, ...remedy]) expect(stdout).toContain(text);
  expect((await run('doctor', namespace)).stdout).toContain(found);
  // As the commands say.
  await remove(namespace, [phase, tags]);
  const again = await setup(namespace);
  expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining(`registered ${phase}, ${tags}`) as string });
});

test('where the server denies the right, the error holds the commands for a person with the rights', async () => {
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
