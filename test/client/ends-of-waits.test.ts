/** What ends the calls and waits of a client besides their own outcome: nothing goes on after it. */
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Client, Connection, type WorkflowService } from '@temporalio/client';
import { afterEach, expect, test, vi } from 'vitest';
import { watchJob } from '../../src/client/agent-job/wait.js';
import { loggerOf } from '../../src/client/settings.js';
import { AgentJobs, TemporalCallError, type JobHandle } from '../../src/starter.js';
import { gathered } from './job-server.js';
import { startScriptedServer } from './scripted-server.js';
import { useForFile } from '../support/use.js';

const server = useForFile(startScriptedServer);
afterEach(() => vi.restoreAllMocks());

const start = (jobs: AgentJobs, prompt: string): Promise<JobHandle> =>
  jobs.start({ projectId: server.projectId, key: randomUUID(), prompt });

/** A client over a connection of its own, whose requests a test may tamper with. */
async function ownClient(): Promise<{ jobs: AgentJobs; service: WorkflowService; close: () => Promise<void> }> {
  const connection = await Connection.connect({ address: server.address });
  const client = new Client({ connection, namespace: server.namespace });
  const jobs = new AgentJobs({ client, taskQueue: server.taskQueue });
  return { jobs, service: client.workflowService, close: () => connection.close() };
}

/** As gRPC's client says it. */
const grpcError = (code: number, details: string) =>
  Object.assign(new Error(details), { code, details, metadata: { get: () => [] } });

test('after an abort, a follow-up to an ended job is not sent again', async () => {
  const { jobs, service, close } = await ownClient();
  const job = await start(jobs, 'hello');
  await job.result();
  const stop = new AbortController();
  const reason = new Error('enough');
  // The network loses the request, and what the abort makes of it is a cancelled one.
  const send = vi.spyOn(service, 'executeMultiOperation').mockImplementationOnce(
    () =>
      new Promise((_, reject) => {
        stop.signal.addEventListener('abort', () => reject(grpcError(1, 'Cancelled on client')));
        stop.abort(reason);
      }) as never,
  );
  await expect(job.followUp('more', { id: 'a', signal: stop.signal })).rejects.toBe(reason);
  // Longer than the pause between two rounds.
  await pause(2_000);
  expect(send).toHaveBeenCalledTimes(1);
  expect(await server.countRuns(job)).toBe(1);
  await close();
});

test('a watch throws a definite error at once where no state went before, else after five minutes', async () => {
  const { jobs, service, close } = await ownClient();
  const job = await start(jobs, 'stay');
  const refuse = () => Promise.reject(grpcError(7, 'no queries for you')) as never;
  const query = vi.spyOn(service, 'queryWorkflow').mockImplementation(refuse);
  const refused = { code: 'TEMPORAL_CALL', retryable: false };
  await expect(gathered(job.watch())).rejects.toMatchObject(refused);
  query.mockRestore();
  const context = { client: jobs.client, logger: loggerOf(null), timeoutMs: undefined };
  const watch = watchJob(context, job.workflowId, {}, { minMs: 100, maxMs: 100, ratio: 1 });
  expect((await watch.next()).value).toMatchObject({ followUps: [] });
  const again = vi.spyOn(service, 'queryWorkflow').mockImplementation(refuse);
  await job.followUp('more');
  const next = watch.next();
  await expect.poll(() => again.mock.calls.length).toBeGreaterThan(2);
  const { now } = Date;
  vi.spyOn(Date, 'now').mockImplementation(() => now() + 6 * 60_000);
  await expect(next).rejects.toMatchObject(refused);
  await job.cancel();
  await close();
});

test('a failed connect leaves no connection open', async () => {
  const refusing = createServer();
  const sessions = new Set<unknown>();
  refusing.on('session', (session) => {
    sessions.add(session);
    session.on('close', () => sessions.delete(session));
  });
  const seen: unknown[] = [];
  refusing.on('stream', (stream) => {
    seen.push(...sessions);
    const status = { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '7' };
    stream.respond(status, { endStream: true });
  });
  await new Promise<void>((resolve) => refusing.listen(0, '127.0.0.1', resolve));
  const { port } = refusing.address() as AddressInfo;
  await expect(AgentJobs.connect({ address: `127.0.0.1:${port}` })).rejects.toThrow(TemporalCallError);
  expect(seen).not.toEqual([]);
  await expect.poll(() => sessions.size).toBe(0);
  refusing.close();
});

test('after close, what waits ends with one error', async () => {
  const { address, namespace, taskQueue } = server;
  const jobs = await AgentJobs.connect({ address, namespace, taskQueue });
  const job = await start(jobs, 'stay');
  const watch = job.watch()[Symbol.asyncIterator]();
  await watch.next();
  const ends = Promise.allSettled([job.result(), watch.next()]);
  await jobs.close();
  for (const end of await ends) {
    expect(end).toMatchObject({ status: 'rejected', reason: { message: 'the connection to Temporal was closed' } });
  }
  await expect(job.result()).rejects.toThrow(TemporalCallError);
  await expect(job.state()).rejects.toThrow(TemporalCallError);
  await server.jobs.handle(job.workflowId).cancel();
});
