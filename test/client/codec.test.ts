import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { openPayloadCodec } from '../../src/starter/codec.js';
import { AgentJobs, JobCanceledError } from '../../src/starter.js';
import { textIn } from '../support/text-in.js';
import { QUICK, startJobServer, type JobServer } from './job-server.js';
import { newFolder } from '../support/folder.js';

const WORD = `zeugma${randomBytes(6).toString('hex')}`;

const folder = newFolder();
let server: JobServer;
const keys: Record<string, string> = {};
const fileOf = (name: string) => join(folder, name);

/** Writes a file of keys. Each has the same bytes under its id everywhere. */
async function writeKeys(name: string, current: string, ...others: string[]): Promise<string> {
  const ids = [current, ...others];
  for (const id of ids) keys[id] ??= randomBytes(32).toString('base64');
  await writeFile(fileOf(name), JSON.stringify({ current, keys: Object.fromEntries(ids.map((id) => [id, keys[id]])) }));
  return fileOf(name);
}

const connect = (keysFile: string) =>
  AgentJobs.connect({
    address: server.address,
    namespace: server.namespace,
    taskQueue: server.taskQueue,
    dataConverter: { payloadCodecs: [openPayloadCodec(keysFile)] },
  });

beforeAll(async () => {
  const workerKeys = await writeKeys('worker.json', 'one', 'two');
  server = await startJobServer(undefined, { payloadCodecs: [openPayloadCodec(workerKeys)] });
});
afterAll(async () => {
  await server.close();
});

test('a caller with the codec starts, steers and reads a job, over a rotation, and its words are nowhere', async () => {
  const file = await writeKeys('caller.json', 'one');
  await using jobs = await connect(file);
  const { projectId } = server;
  await server.sandbox.addScript({ promptIncludes: 'Please', script: { activeMs: 300_000 } });
  const job = await jobs.start({ projectId, key: 'story', prompt: `Please ${WORD}`, ...QUICK });
  expect(await job.sendFollowUp(`and ${WORD}`)).toMatchObject({ state: 'sent' });
  await writeKeys('caller.json', 'two', 'one');
  // Another caller has only just read the file.
  await using later = await connect(file);
  const second = await later.start({ projectId, key: 'later', prompt: `Then ${WORD}`, ...QUICK });
  expect((await second.result()).outcome).toBe('completed');
  expect((await later.handle(job.workflowId).state()).followUps.map(({ state }) => state)).toEqual(['sent']);
  await job.cancel();
  await expect(job.result()).rejects.toThrow(JobCanceledError);

  const histories = [job, second].map(({ workflowId }) =>
    server.client.workflow.getHandle(workflowId).fetchHistory().then(textIn),
  );
  const [first, other] = (await Promise.all(histories)) as [string, string];
  expect(first).toContain('encryption-key-id: one');
  expect(other).toContain('encryption-key-id: two');
  expect([first, other].filter((text) => text.includes(WORD))).toEqual([]);
});

test('a caller with a file of keys in its environment and no codec is warned', async () => {
  const place = { address: server.address, namespace: server.namespace };
  vi.stubEnv('PAYLOAD_KEYS_FILE', fileOf('worker.json'));
  const told: string[] = [];
  const tell = (message: string) => void told.push(message);
  const logger = { warn: tell };
  const emitted: unknown[] = [];
  const emitWarning = vi.spyOn(process, 'emitWarning').mockImplementation((warning) => void emitted.push(warning));
  try {
    for (const settings of [{ ...place }, { ...place, logger }, { ...place, dataConverter: { payloadCodecs: [] } }])
      await (await AgentJobs.connect(settings)).close();
    await (await connect(fileOf('worker.json'))).close();
    vi.stubEnv('PAYLOAD_KEYS_FILE', '');
    await (await AgentJobs.connect(place)).close();
  } finally {
    vi.unstubAllEnvs();
    emitWarning.mockRestore();
  }
  const warning = expect.stringMatching(/^PAYLOAD_KEYS_FILE is set, but this client encrypts nothing/) as string;
  expect([emitted, told]).toEqual([[warning, warning], [warning]]);
});
