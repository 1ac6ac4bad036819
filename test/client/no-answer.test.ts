import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  AgentJobs,
  FollowUpUnconfirmedError,
  InvalidInputError,
  JobEndedError,
  JobNotFoundError,
  JobTerminatedError,
  TemporalUnavailableError,
} from '../../src/starter.js';
import { RequestRetries } from '../../src/temporal/grpc.js';
import { startScriptedServer } from './scripted-server.js';
import { useForFile } from '../support/use.js';

const MINUTE = 60_000;
const NOW = { timeoutMs: 1_000 };

const server = useForFile(startScriptedServer);

function newRequest(prompt: string) {
  return { projectId: server.projectId, key: randomUUID(), prompt };
}

/** Jobs whose worker is nowhere, or comes later. */
function jobsOn(taskQueue: string): AgentJobs {
  return new AgentJobs({ client: server.client, taskQueue });
}

async function ended(): Promise<Error> {
  throw new Error('was answered');
}

const errorOf = (call: Promise<unknown>) => call.then(ended, (error: unknown) => error as Error);

async function firstOf(list: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of list) return;
}

describe('where the server is silent', () => {
  let silent: Server;
  const sockets: Socket[] = [];
  const retries = new RequestRetries();
  let connection: Connection;
  let jobs: AgentJobs;

  beforeAll(async () => {
    silent = createServer((socket) => void sockets.push(socket.on('error', () => {})));
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    connection = Connection.lazy({ address: `127.0.0.1:${port}`, interceptors: [retries.interceptor] });
    jobs = new AgentJobs({ client: new Client({ connection }), taskQueue: 'any' });
  });
  afterAll(async () => {
    await retries.end();
    for (const socket of sockets) socket.destroy();
    await new Promise((closed) => silent.close(closed));
    await connection.close();
  });

  test.concurrent.each<[string, () => Promise<unknown>]>([
    ['start', () => jobs.start(newRequest('hello'), NOW)],
    ['state', () => jobs.handle('w').state(NOW)],
    ['list', () => firstOf(jobs.list({}, NOW))],
  ])('%s blames Temporal, in time', { timeout: MINUTE }, async (_, call) => {
    const error = await errorOf(call());
    expect(error).toBeInstanceOf(TemporalUnavailableError);
    expect(error.message).toContain('127.0.0.1:');
  });

  test('a follow-up may have been queued, and Temporal is blamed', { timeout: MINUTE }, async () => {
    const error = await errorOf(jobs.handle('w').followUp('more', { id: 'a', ...NOW }));
    expect(error).toBeInstanceOf(FollowUpUnconfirmedError);
    expect(error).toMatchObject({ id: 'a', cause: expect.any(TemporalUnavailableError) as Error });
  });
});

test('of a job that was ended before a worker began it, no state is waited for', { timeout: MINUTE }, async () => {
  const job = await jobsOn(`nobody-${randomUUID()}`).start(newRequest('hello'));
  await server.client.workflow.getHandle(job.workflowId).terminate();
  const errors = [job.state(), job.result(), firstOf(job.watch())].map(errorOf);
  for (const error of await Promise.all(errors)) expect(error).toBeInstanceOf(JobTerminatedError);
});

test('a workflow that has ended is not taken for one that never was', { timeout: MINUTE }, async () => {
  const job = await server.jobs.start(newRequest('hello'));
  await job.result();
  const never = server.jobs.handle(randomUUID());
  expect(await errorOf(job.pollNow())).toMatchObject({ name: JobEndedError.name, workflowStatus: 'COMPLETED' });
  const errors = await Promise.all([never.pollNow(), never.cancel(), never.state()].map(errorOf));
  for (const error of errors) expect(error.constructor).toBe(JobNotFoundError);
  expect(await errorOf(job.resolve({ action: 'retry' }))).toBeInstanceOf(JobEndedError);
});

test.each([0, -1, Number.NaN])('a time limit of %s is invalid, and is named', async (timeoutMs) => {
  const error = await errorOf(server.jobs.handle('w').pollNow({ timeoutMs }));
  expect(error).toBeInstanceOf(InvalidInputError);
  expect(error).toMatchObject({ field: 'timeoutMs' });
});
