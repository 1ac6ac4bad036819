import { randomBytes } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { startDevServer, type DevServer } from '../../src/local/dev-server.js';
import { freePort } from '../../src/local/child-process.js';
import { PayloadKeys } from '../../src/config/payload-keys.js';
import { payloadCodecs } from '../../src/temporal/payload-codec.js';
import { AgentJobs } from '../../src/starter.js';
import { startSandbox } from '../../src/testing.js';
import { runCli } from '../cli/run-cli.js';
import { runInProcess } from '../cli/run-in-process.js';
import { failedTasks } from '../support/failed-tasks.js';
import { shared } from '../support/shared.js';
import { startWorkerProcess } from '../support/worker-process.js';
import { connectTo } from '../support/dev-server.js';
import { newFolder } from '../support/folder.js';
import { useForFile } from '../support/use.js';

/** In every prompt of the jobs whose caller encrypts; in no other place. */
const WORD = `zeugma${randomBytes(6).toString('hex')}`;
/** In the prompt of a caller without keys: a search that does not find it has looked in the wrong places. */
const PLAIN_WORD = `plainly${randomBytes(6).toString('hex')}`;
const TASK_QUEUE = 'encrypted';
const JOBS_UNDER_ROTATION = 12;
const QUICK = { polling: { min: 1_000, max: 1_000 }, settle: 0 };

const folder = newFolder();
let server: DevServer;
const sandbox = useForFile(() => startSandbox({ script: { activeMs: 2_000 } }));
const keys: Record<string, string> = {};
const keysFile = () => join(folder, 'keys.json');

/** Adds a key, and makes one the key that encrypts. */
async function writeKeys(current: string, ...added: string[]): Promise<void> {
  for (const id of added) keys[id] = randomBytes(32).toString('base64');
  await writeFile(keysFile(), JSON.stringify({ current, keys }));
}

beforeAll(async () => {
  await writeKeys('first', 'first');
  server = await startDevServer({
    program: (await shared('dev-server-program')).path,
    logFile: join(folder, 'dev-server.log'),
    databaseFile: join(folder, 'temporal.db'),
  });
});

const place = () => ({ address: server.address, namespace: server.namespace, taskQueue: TASK_QUEUE });

/** What a folder holds, byte for byte. */
async function bytesIn(path: string): Promise<Record<string, Buffer>> {
  const files = (await readdir(path)).filter((name) => name !== 'keys.json');
  return Object.fromEntries(await Promise.all(files.map(async (name) => [name, await readFile(join(path, name))])));
}

test('with keys no word of a prompt is in database, logs, metrics or output, over a rotation', async () => {
  const metricsPort = await freePort();
  const worker = startWorkerProcess({
    TEMPORAL_ADDRESS: server.address,
    TEMPORAL_NAMESPACE: server.namespace,
    AGENT_JOBS_TASK_QUEUE: TASK_QUEUE,
    UPSTREAM_BASE_URL: sandbox.url,
    ADMIN_API_KEY: sandbox.apiKey,
    PAYLOAD_KEYS_FILE: keysFile(),
    METRICS_ADDRESS: `127.0.0.1:${metricsPort}`,
    LOG_LEVEL: 'trace',
  });
  const read: Record<string, Buffer | string> = {};
  const jobs = await AgentJobs.connect({ ...place(), dataConverter: payloadCodecs(new PayloadKeys(keysFile())) });
  const setUp = { env: { TEMPORAL_ADDRESS: server.address, TEMPORAL_NAMESPACE: server.namespace } };
  expect((await runInProcess(['setup'], setUp)).code).toBe(0);
  const start = (key: string, more: object = {}) =>
    jobs.start({ projectId: 'p', key, prompt: `Please ${WORD} the page\n${WORD}`, ...QUICK, ...more });

  const followUp = [{ status: 'active' }, { afterMs: 2_000, status: 'completed', prLink: true as const }];
  await sandbox.addScript({ count: 1, script: { activeMs: 300_000, followUp } });
  const first = await start('first', { metadata: { ticket: '4711' }, tags: ['night'] });
  expect(await first.sendFollowUp(`and ${WORD} again`, { id: 'one' })).toMatchObject({ state: 'sent' });
  await first.followUp(`and ${WORD} by a signal`, { id: 'two' });
  await sandbox.addFault({ kind: 'status', operation: 'create', status: 500, projectId: 'p', body: `no ${WORD}` });
  const doubtful = await start('doubtful');
  await expect.poll(async () => (await doubtful.state()).phase).toBe('needsAttention');
  await doubtful.resolve({ action: 'abandon' });
  expect((await doubtful.result()).outcome).toBe('abandoned');
  await sandbox.addFault({
    kind: 'status',
    operation: 'create',
    status: 422,
    projectId: 'p',
    body: { error: `bad ${WORD}` },
  });
  await expect((await start('rejected')).result()).rejects.toThrow();
  // The new key reaches every reader before any caller encrypts with it.
  const running = await Promise.all(Array.from({ length: JOBS_UNDER_ROTATION }, (_, i) => start(`load-${i}`)));
  await writeKeys('first', 'second');
  await Promise.all(running.slice(0, 4).map((job) => job.sendFollowUp(`more ${WORD}`)));
  await writeKeys('second');
  const later = await Promise.all(Array.from({ length: 4 }, (_, i) => start(`later-${i}`)));
  for (const job of [first, ...running, ...later]) expect((await job.result()).outcome).toBe('completed');
  expect((await first.state()).followUps.map(({ state }) => state)).toEqual(['sent', 'sent']);

  const env = { ...setUp.env, AGENT_JOBS_TASK_QUEUE: TASK_QUEUE, PAYLOAD_KEYS_FILE: keysFile() };
  const cli = async (...args: string[]) => {
    // A replay needs a process of its own.
    const { code, stdout, stderr } = await (args[0] === 'replay-check' ? runCli : runInProcess)(args, { env });
    read[`agent-jobs ${args.join(' ')}`] = stdout + stderr;
    expect([args, code, stderr]).toEqual([args, 0, '']);
    return stdout;
  };
  expect(await cli('replay-check', '--since', '1h')).toContain('may be rolled out');
  expect(await runInProcess(['list', '--json'], { env })).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(WORD),
  });

  const failing: string[] = [];
  for await (const { workflowId, runId } of jobs.client.workflow.list()) {
    const { events } = await jobs.client.workflow.getHandle(workflowId, runId).fetchHistory();
    if (failedTasks(events).length > 0) failing.push(workflowId);
  }
  expect(failing).toEqual([]);

  const metricsNow = async () => (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  const plainCount = async () => Number(/^agent_jobs_plain_payloads_total\S* (\d+)$/m.exec(await metricsNow())?.[1]);
  expect([await plainCount(), worker.output().includes('not encrypted')]).toEqual([0, false]);
  const plainly = await connectTo(server);
  const args = [{ projectId: 'p', prompt: PLAIN_WORD, ...QUICK }];
  const plain = await plainly.client.workflow.start('agentJob', { workflowId: 'plain', taskQueue: TASK_QUEUE, args });
  await expect(plain.result()).rejects.toThrow(/binary\/encrypted/);
  await plainly.close();
  await jobs.close();

  read['/metrics'] = await metricsNow();
  expect(await plainCount()).toBeGreaterThan(0);
  await worker.wrote('Payloads are not encrypted');
  await worker.kill();
  read['the worker’s output'] = worker.output();
  expect(worker.output().match(/Payloads are not encrypted/g)).toHaveLength(1);
  await server.stop();
  Object.assign(read, await bytesIn(folder));
  const holding = (word: string) => Object.keys(read).filter((name) => read[name]!.includes(word));
  expect(holding(PLAIN_WORD)).toContainEqual(expect.stringContaining('temporal.db'));
  const line = worker
    .output()
    .split('\n')
    .find((text) => text.includes(WORD));
  expect([line, holding(WORD)]).toEqual([undefined, []]);
});
