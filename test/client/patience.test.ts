/** A question that waits behind other tasks of a worker at work: asked again, but only where the caller has time. */
import { randomUUID } from 'node:crypto';
import { Client, ServiceError } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import { GRPC_STATUS } from '../../src/temporal/grpc.js';
import { QUICK, startJobServer, type JobServer } from './job-server.js';

const MINUTE = 60_000;

let server: JobServer;
beforeAll(async () => {
  server = await startJobServer();
}, 2 * MINUTE);
afterAll(() => server.close());

const newRequest = () => ({
  key: randomUUID(),
  projectId: server.projectId,
  prompt: `prompt ${randomUUID()}`,
  ...QUICK,
});

/** As gRPC tells that nobody answered in time. */
function deadlineExceeded(): Error {
  const cause = Object.assign(new Error('4 DEADLINE_EXCEEDED'), {
    code: GRPC_STATUS.deadlineExceeded,
    details: 'context deadline exceeded',
    metadata: {},
  });
  return new ServiceError('Failed to query Workflow', { cause });
}

/** A client whose first questions are not answered in time, because the worker does another job meanwhile. */
function impatientClient(unanswered: number): { jobs: AgentJobs; asked: () => number } {
  const { client, namespace, taskQueue } = server;
  let asked = 0;
  const query = async <Input, Output>(input: Input, next: (input: Input) => Promise<Output>): Promise<Output> => {
    asked += 1;
    if (asked > unanswered) return next(input);
    await (await server.jobs.start(newRequest())).result();
    throw deadlineExceeded();
  };
  const own = new Client({ connection: client.connection, namespace, interceptors: { workflow: [{ query }] } });
  return { jobs: new AgentJobs({ client: own, taskQueue }), asked: () => asked };
}

test('a state is asked for again while the worker takes other tasks', { timeout: 3 * MINUTE }, async () => {
  const request = newRequest();
  await server.sandbox.addScript({ promptIncludes: request.prompt, script: { activeMs: 3_600_000 } });
  const { workflowId } = await server.jobs.start(request);
  const { jobs, asked } = impatientClient(2);
  expect(await jobs.handle(workflowId).state()).toMatchObject({ projectId: server.projectId });
  expect(asked()).toBe(3);
});

test('whoever sets a limit is told that the worker is busy, and asks once', { timeout: 3 * MINUTE }, async () => {
  const { workflowId } = await server.jobs.start(newRequest());
  const { jobs, asked } = impatientClient(2);
  const error = await jobs
    .handle(workflowId)
    .state({ timeoutMs: MINUTE })
    .catch((reason: Error) => reason);
  expect(error).toMatchObject({ name: 'WorkerBusyError', code: 'WORKER_BUSY', retryable: true });
  expect(asked()).toBe(1);
});

test('while many jobs start, each tells its state to whoever asks', { timeout: 5 * MINUTE }, async () => {
  const ask = async () => {
    const request = newRequest();
    const handle = await patiently(() => server.jobs.start(request));
    return patiently(() => handle.state());
  };
  const fates = await Promise.allSettled(Array.from({ length: 25 }, ask));
  expect(fates.filter(({ status }) => status === 'rejected')).toEqual([]);
});

/** As callers are told to: a machine that is busy with others answers later. */
async function patiently<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if ((error as { retryable?: boolean }).retryable !== true) throw error;
    }
  }
}
