/** What the command line shows if it, or a worker, lacks the key of a payload. */
import { randomBytes, randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openPayloadCodec } from '../../src/starter/codec.js';
import { AgentJobs, type JobHandle } from '../../src/starter.js';
import { gathered, QUICK, startJobServer, type JobServer } from '../client/job-server.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import { envOf, runCli, type CliRun } from './run-cli.js';
import { runInProcess } from './run-in-process.js';
import { newFolder } from '../support/folder.js';

const MESSAGE =
  'what was read is "binary/encrypted", for which this client has no key: set PAYLOAD_KEYS_FILE, or give its codec';

const folder = newFolder();
let server: JobServer;
/** Has the worker's key. */
let jobs: AgentJobs;
/** Ended; its caller and its worker have the same key. */
let ended: JobHandle;

const keysFile = (id: string) => join(folder, `${id}.json`);
const envWith = (keyId: string | null) => ({
  ...envOf(server),
  ...(keyId !== null && { PAYLOAD_KEYS_FILE: keysFile(keyId) }),
});
const cli = (keyId: string | null, ...args: string[]): Promise<CliRun> => runInProcess(args, { env: envWith(keyId) });

beforeAll(async () => {
  for (const id of ['a', 'b']) {
    const keys = { [id]: randomBytes(32).toString('base64') };
    await writeFile(keysFile(id), JSON.stringify({ current: id, keys }), { mode: 0o600 });
  }
  const dataConverter = { payloadCodecs: [openPayloadCodec(keysFile('a'))] };
  server = await startJobServer(await connectOwnNamespace(), dataConverter);
  const { address, namespace, taskQueue, projectId } = server;
  jobs = await AgentJobs.connect({ address, namespace, taskQueue, dataConverter });
  ended = await jobs.start({ projectId, key: 'ended', prompt: 'p', ...QUICK });
  await ended.result();
  await server.sandbox.addScript({ script: { activeMs: 3_600_000 } });
  await jobs.start({ projectId, key: 'open', prompt: 'p', ...QUICK });
});
afterAll(async () => {
  for (const { workflowId } of await gathered(server.jobs.list({ isRunning: true }))) {
    // The list lies behind: one that was terminated may be in it.
    await server.client.workflow
      .getHandle(workflowId)
      .terminate()
      .catch(() => {});
  }
  await jobs.close();
  await server.close();
});

test('without keys, encrypted jobs that are well need no attention', async () => {
  await expect.poll(() => gathered(server.jobs.list({ isRunning: true }))).toHaveLength(1);
  expect(await cli(null, 'attention')).toEqual({ code: 0, stdout: 'nothing needs attention\n', stderr: '' });
});

test('a run that its worker alone encrypts is not read without the key, and fits with it', async () => {
  const { projectId, taskQueue } = server;
  const plain = await server.jobs.start({ projectId, key: 'plain', prompt: 'p', ...QUICK });
  await jobs.handle(plain.workflowId).result();
  const listed = async () => (await gathered(server.jobs.list({ projectId }))).map(({ workflowId }) => workflowId);
  await expect.poll(listed).toContain(plain.workflowId);
  // A process has one replay at most.
  const check = (keyId: string | null) => runCli(['replay-check', '--task-queue', taskQueue], { env: envWith(keyId) });
  const without = await check(null);
  expect(without.stderr).toMatch(new RegExp(`^agent-jobs: not read: ${plain.workflowId} .*set PAYLOAD_KEYS_FILE`, 'm'));
  expect(without.stdout + without.stderr).not.toMatch(/do not roll out|does not fit/);
  expect(without.stderr).toMatch(/^agent-jobs: it is not known: \d+ runs could not be read$/m);
  expect(without.code).toBe(1);
  const other = await check('b');
  expect(other.stderr).toContain(`(run ${plain.runId}): the payload keys file ${keysFile('b')} has no key "a": add it`);
  expect(other.stderr).not.toContain('do not roll out');
  const withKey = await check('a');
  expect(withKey.stderr).not.toMatch(new RegExp(`do not roll out|${plain.workflowId}`));
});

test('a command that can not do without the key says which setting it lacks', async () => {
  const args = ['wait', ended.workflowId];
  // Before it, progress may be printed.
  const lastLineOf = ({ stderr }: CliRun) => stderr.trimEnd().split('\n').at(-1)!;
  const failed = await cli(null, ...args);
  expect([failed.code, lastLineOf(failed)]).toEqual([1, `agent-jobs: ${MESSAGE}`]);
  const asJson = JSON.parse(lastLineOf(await cli(null, ...args, '--json'))) as object;
  expect(asJson).toMatchObject({ code: 'PAYLOAD_KEYS', message: MESSAGE, exitCode: 1 });
  expect((await cli('a', ...args)).code).toBe(0);
  expect((await cli(null, 'wait', randomUUID())).stderr).not.toContain('PAYLOAD_KEYS_FILE');
});

test('a write in doubt that can not be read is named with the setting', async () => {
  const { projectId, sandbox } = server;
  await sandbox.addFault({ kind: 'status', operation: 'create', status: 500, projectId, body: 'no' });
  const job = await jobs.start({ projectId, key: 'doubtful', prompt: 'p', ...QUICK });
  const found = async () => (await gathered(server.jobs.needsAttention())).map(({ workflowId }) => workflowId);
  await expect.poll(found).toEqual([job.workflowId]);
  expect(await cli(null, 'attention')).toEqual({
    code: 1,
    stdout: '',
    stderr: [`${job.workflowId} could not be read: ${MESSAGE}`, '1 job could not be read']
      .map((line) => `agent-jobs: ${line}\n`)
      .join(''),
  });
  await job.resolve({ action: 'abandon' });
});
