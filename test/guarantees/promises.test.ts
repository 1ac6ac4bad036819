import { readFile } from 'node:fs/promises';
import { WorkflowFailedError } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { followUpSignal, jobStateQuery, resolveUnknownUpdate } from '../../src/contract.js';
import { startSandbox, type FaultRule } from '../../src/testing.js';
import { createUpstream } from '../../src/upstream/client.js';
import { createKeySource } from '../../src/upstream/keys.js';
import { connectDevServer } from '../support/dev-server.js';
import { startJobBench, type JobBench } from '../support/job-bench.js';
import { HELD_BY } from './held-by.js';
import { PROMISE_TABLES, PROMISES, VOUCHED_STATUSES, type Promise_ } from './promises.js';
import { useForFile } from '../support/use.js';

/** Not `expect.poll`, which does not know its test if several run at once. */
const PATIENCE = { timeout: 120_000, interval: 400 };

const server = useForFile(connectDevServer);
const sandbox = useForFile(() => startSandbox({ script: { activeMs: 0, messageLagMs: 0 }, keptRequests: 100_000 }));
let bench: JobBench;
/** Jobs whose worker runs after a restore: writes requested before it may have been sent already. */
let restoredBench: JobBench;
let upstream: ReturnType<typeof createUpstream>;

beforeAll(async () => {
  upstream = createUpstream({
    baseUrl: sandbox.url,
    keys: createKeySource({ adminApiKey: sandbox.apiKey }),
    timeoutMs: 5_000,
    notTakenStatuses: VOUCHED_STATUSES,
  });
  bench = await startJobBench(server, upstream);
  const confirmWritesBefore = new Date(Date.now() + 3_600_000).toISOString();
  restoredBench = await startJobBench(server, upstream, { confirmWritesBefore });
});

afterAll(async () => {
  await bench?.stop();
  await restoredBench?.stop();
  await upstream?.close();
});

/** Runs one job whose write meets the fault, with a person who decides truthfully, and answers with its end. */
async function live(
  promise: Promise_,
  projectId: string,
): Promise<{ sees: string; requests: number; effects: number }> {
  const { write, rule, policy, isTaken } = promise;
  const operation = write === 'create' ? 'create' : 'message';
  const own = JSON.parse(JSON.stringify(rule).replace('{project}', projectId)) as FaultRule | null;
  if (own) await sandbox.addFault({ ...own, operation, projectId, count: 1 });
  // No follow-up comes too late.
  if (write === 'follow-up') await sandbox.addScript({ projectId, script: { activeMs: 3_600_000 } });
  const handle = await (rule ? bench : restoredBench).start({
    projectId,
    prompt: `work for ${projectId}`,
    onUnknownOutcome: policy === 'any' ? (rule ? 'ask' : 'retry') : policy,
    settle: 0,
  });
  if (write === 'follow-up') await handle.signal(followUpSignal, { prompt: 'go on', id: 'one' });
  if (promise.outcome[write] === 'not sent') await sendAgainIfAsked(handle);
  if (!rule && write === 'follow-up') await confirmCreate(handle);
  const end = write === 'create' ? endOfCreate : endOfFollowUp;
  const sees = asksPerson(promise) ? await settle(handle, isTaken) : await end(handle);
  const requests = (await sandbox.requests()).filter((r) => r.projectId === projectId && r.operation === operation);
  const creates = await sandbox.creates({ projectId });
  const messages = await Promise.all(creates.map(({ id }) => sandbox.messages({ jobId: id })));
  await handle.cancel().catch(() => {});
  return { sees, requests: requests.length, effects: write === 'create' ? creates.length : messages.flat().length };
}

/**
 * A reset races with the last byte: on a busy machine that may have left before the reset comes, and then a person is
 * asked.
 */
async function sendAgainIfAsked(handle: Handle): Promise<void> {
  await vi.waitFor(async () => {
    const { phase, unknown, followUps } = await handle.query(jobStateQuery);
    if (unknown)
      await handle.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'retry', since: unknown.since }] });
    expect(unknown === null && (phase === 'done' || followUps[0]?.state === 'sent')).toBe(true);
  }, PATIENCE);
}

async function confirmCreate(handle: Handle): Promise<void> {
  const stateNow = () => handle.query(jobStateQuery);
  await vi.waitFor(async () => expect((await stateNow()).unknown?.kind).toBe('create'), PATIENCE);
  await handle.executeUpdate(resolveUnknownUpdate, { args: [{ action: 'retry' }] });
  await vi.waitFor(async () => expect((await stateNow()).unknown?.kind).toBe('followUp'), PATIENCE);
}

type Handle = Awaited<ReturnType<JobBench['start']>>;

async function settle(handle: Handle, isTaken: boolean): Promise<string> {
  await vi.waitFor(async () => expect((await handle.query(jobStateQuery)).phase).toBe('needsAttention'), PATIENCE);
  const { unknown, projectId } = await handle.query(jobStateQuery);
  if (unknown?.kind === 'followUp') {
    const action = isTaken ? 'delivered' : 'retry';
    await handle.executeUpdate(resolveUnknownUpdate, { args: [{ action, since: unknown.since }] });
    await vi.waitFor(async () => expect(await followUpState(handle)).toBe('sent'), PATIENCE);
    return `\`needsAttention\`; a person says \`${action}\``;
  }
  const [job] = await sandbox.creates({ projectId });
  expect(job !== undefined).toBe(isTaken);
  const resolution = job ? { action: 'adopt' as const, jobId: job.id } : { action: 'retry' as const };
  await handle.executeUpdate(resolveUnknownUpdate, { args: [resolution] });
  expect((await handle.result()).outcome).toBe('completed');
  return `\`needsAttention\`; a person says \`${resolution.action}\``;
}

async function endOfCreate(handle: Handle): Promise<string> {
  try {
    expect((await handle.result()).outcome).toBe('completed');
    return 'job';
  } catch (error) {
    return failureOf(error);
  }
}

async function endOfFollowUp(handle: Handle): Promise<string> {
  await vi.waitFor(async () => expect(await followUpState(handle)).not.toBe('queued'), PATIENCE);
  const state = await followUpState(handle);
  if (state !== 'unknown') return state;
  return failureOf(await handle.result().catch((error: unknown) => error));
}

async function followUpState(handle: Handle): Promise<string> {
  return (await handle.query(jobStateQuery)).followUps[0]?.state ?? 'queued';
}

function failureOf(error: unknown): string {
  if (!(error instanceof WorkflowFailedError)) throw error;
  return `failure \`${(error.cause as { type?: string }).type}\``;
}

function asksPerson({ sees }: Promise_): boolean {
  return sees.includes('a person says');
}

/** What `live` says if a row's promise holds. */
function expected(promise: Promise_): string {
  const { write, sees, rule } = promise;
  if (!rule) return sees.replace(' before anything is sent', '');
  if (asksPerson(promise) || sees.startsWith('failure')) return sees;
  if (sees.endsWith('`rejected`')) return 'rejected';
  return write === 'create' ? 'job' : 'sent';
}

describe.concurrent('the promise table', () => {
  test.for(PROMISES.map((promise, row) => ({ ...promise, row })))(
    '$write, $fault, $moment, policy $policy: $sees, $requests requests, $effects accepted',
    async (promise, { expect }) => {
      const { requests, effects } = promise;
      expect(await live(promise, `row-${promise.row}`)).toEqual({ sees: expected(promise), requests, effects });
    },
  );
});

const read = (path: string) => readFile(new URL(`../../${path}`, import.meta.url), 'utf8');

test.each(Object.keys(PROMISE_TABLES))('docs/promises.md shows exactly these rows of %s', async (marker) => {
  expect(await read('docs/promises.md')).toContain(PROMISE_TABLES[marker]);
});

const HELD = Object.entries(HELD_BY).flatMap(([file, titles]) =>
  Object.entries(titles).map(([fault, title]) => ({ file, fault, title })),
);

test('docs/promises.md shows exactly the other rows, each with the file that holds it', async () => {
  const rows = (await read('docs/promises.md')).matchAll(/^\| (.*?) +\| .* \| `test\/(.*)\.test\.ts` *\|$/gm);
  const shown = [...rows].map(([, fault, file]) => `${file}: ${fault}`);
  expect(shown.toSorted()).toEqual(HELD.map(({ file, fault }) => `${file}: ${fault}`).toSorted());
});

test.each(HELD)('what is promised for "$fault" has its test: $title', async ({ file, title }) => {
  expect(await read(`test/${file}.test.ts`)).toContain(title);
});
