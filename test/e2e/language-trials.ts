/** What the clients of other languages have to stand besides their story: no worker, a slow network, a codec. */
import { execFile } from 'node:child_process';
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { inflateSync } from 'node:zlib';
import { expect } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import { until } from '../support/worker-process.js';
import type { usePrivateSystem } from './system.js';

const run = promisify(execFile);

type System = ReturnType<typeof usePrivateSystem>;

/** The program that makes one call of a language's client, and its arguments before those of the call. */
interface Caller {
  program: string;
  args: string[];
  env: NodeJS.ProcessEnv;
}

const CALL_LIMIT_MS = 240_000;

/** One call in a process of its own; `giveUp` makes its caller end it. */
function call({ server }: System, caller: Caller, args: string[], env: Record<string, string> = {}) {
  const { address: TEMPORAL_ADDRESS, namespace: TEMPORAL_NAMESPACE, taskQueue: AGENT_JOBS_TASK_QUEUE } = server;
  const own = { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, AGENT_JOBS_TASK_QUEUE, PROJECT: 'trials', ...env };
  const options = { env: { ...caller.env, ...own }, timeout: CALL_LIMIT_MS };
  const program = run(caller.program, [...caller.args, ...args], options);
  const answer = program.then(
    ({ stdout }) => JSON.parse(stdout) as { id?: string },
    ({ stdout, stderr }: { stdout: string; stderr: string }) => {
      throw new Error(`the call ${args.join(' ')} failed:\n${stdout}\n${stderr}`);
    },
  );
  answer.catch(() => {}); // It is awaited later.
  const end = async () => {
    program.child.kill('SIGKILL');
    await answer.catch(() => {});
  };
  /** Until something comes of it; a call that fails before says why. */
  const running = (holds: () => Promise<boolean>, what: string) =>
    Promise.race([answer, until(holds, what, undefined, CALL_LIMIT_MS)]);
  return { answer, giveUp: () => void program.child.stdin?.write('\n'), running, end };
}

const projectId = 'trials';

function jobsOf({ server: { client, taskQueue } }: System): AgentJobs {
  return new AgentJobs({ client, taskQueue });
}

/** Whatever their memos are encoded with. */
async function runsOf({ server }: System, workflowId: string): Promise<string[]> {
  const { client, namespace } = server;
  const query = `WorkflowId = '${workflowId}'`;
  const { executions } = await client.workflowService.listWorkflowExecutions({ namespace, query });
  return executions.map(({ execution }) => execution?.runId ?? '');
}

async function attachedIds({ server }: System, workflowId: string): Promise<string[]> {
  const { raw } = await server.client.workflow.getHandle(workflowId).describe();
  return Object.keys(raw.workflowExtendedInfo?.requestIdInfos ?? {});
}

/** Much longer than the client waits between its attempts. */
const NEXT_ATTEMPT_MS = 6_000;

/** The new run is made, and nobody answers: the id is told, and what the newest run knows needs no worker either. */
async function followUpWithoutWorker(system: System, caller: Caller): Promise<void> {
  system.startWorker();
  const job = await jobsOf(system).start({ key: 'late', projectId, prompt: 'late' });
  for await (const { jobId } of job.watch()) if (jobId !== null) break;
  const { runId: first } = await system.server.client.workflow.getHandle(job.workflowId).describe();
  await job.cancel();
  await job.result().catch(() => {});
  await job.sendFollowUp('first', { id: 'first' });
  const { jobId } = await job.result();
  await system.killWorkers();

  const late = call(system, caller, ['followUp', 'late', 'second']);
  // The ids are attached once the first attempt is over.
  const isOver = async () => (await runsOf(system, job.workflowId)).length === 3;
  const isAttached = async () => (await attachedIds(system, job.workflowId)).includes(`agent-jobs/after/${first}`);
  await late.running(async () => (await isOver()) && (await isAttached()), 'a third run that knows the first');
  await delay(NEXT_ATTEMPT_MS);
  late.giveUp();
  const told = await late.answer;
  expect(told).toEqual({ error: 'unconfirmed', id: expect.stringMatching(/./) });

  system.startWorker();
  const repeated = call(system, caller, ['followUp', 'late', 'second', told.id!]);
  expect(await repeated.answer).toEqual({ state: 'sent' });
  await job.result();
  const messages = await system.sandbox.messages({ jobId: jobId! });
  expect(messages.map(({ prompt }) => prompt)).toEqual(['first', 'second']);
}

/** An attached run that was ended before a worker began it answers no query; what it was given is all it knows. */
async function followUpOfUnbegunRun(system: System, caller: Caller): Promise<void> {
  system.startWorker();
  const jobs = jobsOf(system);
  await system.sandbox.addScript({ projectId, promptIncludes: 'unbegun', script: { activeMs: 100 } });
  const { jobId } = await (await jobs.start({ key: 'unbegun', projectId, prompt: 'unbegun' })).result();
  await system.killWorkers();
  const given = { key: 'attached', projectId, jobId: jobId!, usedFollowUpIds: ['used'] };
  const { workflowId } = await jobs.attach(given);
  await system.server.client.workflow.getHandle(workflowId).terminate('before it began');
  system.startWorker();
  expect(await call(system, caller, ['followUp', 'attached', 'x', 'used']).answer).toEqual({ state: 'unknown' });
  expect(await call(system, caller, ['followUp', 'attached', 'y', 'new']).answer).toEqual({ state: 'sent' });
  const messages = await system.sandbox.messages({ jobId: jobId! });
  expect(messages.map(({ prompt }) => prompt)).toEqual(['y']);
  expect(await call(system, caller, ['followUp', 'no such key', 'z', 'z']).answer).toEqual({ error: 'refused' });
}

/** Whether the job still runs or has ended. */
async function idWithAnotherPrompt(system: System, caller: Caller): Promise<void> {
  system.startWorker();
  const job = await jobsOf(system).start({ key: 'conflict', projectId, prompt: 'conflict' });
  const say = (prompt: string) => call(system, caller, ['followUp', 'conflict', prompt, 'one']).answer;
  expect(await say('first')).toEqual({ state: 'sent' });
  expect(await say('other')).toEqual({ error: 'refused' });
  const { jobId } = await job.result();
  expect(await say('other')).toEqual({ error: 'refused' });
  expect(await say('first')).toEqual({ state: 'sent' });
  const messages = await system.sandbox.messages({ jobId: jobId! });
  expect(messages.map(({ prompt }) => prompt)).toEqual(['first']);
}

const REFUSALS = 40;
const ONE_WAY_MS = 75;

/** Reading all of them one after another takes longer than a start may come after it. */
async function keyRefusedOften(system: System, caller: Caller): Promise<void> {
  system.startWorker();
  const { client, taskQueue } = system.server;
  const workflowId = 'agent-job/trials/refused';
  for (let i = 0; i < REFUSALS; i++) {
    const options = { workflowId, taskQueue, args: [{ projectId, prompt: 'refused', deadline: 'never' }] };
    const handle = await client.workflow.start('agentJob', options);
    await handle.result().catch(() => {});
  }
  const isListed = async () => (await runsOf(system, workflowId)).length === REFUSALS;
  await until(isListed, 'the list to show all runs');
  const proxy = await slowProxy(system.server.address);
  try {
    const started = call(system, caller, ['start', 'refused', 'refused'], { TEMPORAL_ADDRESS: proxy.address });
    expect(await started.answer).toEqual({ isNew: true });
  } finally {
    proxy.close();
  }
  const isOnceMore = async () => (await runsOf(system, workflowId)).length === REFUSALS + 1;
  await until(isOnceMore, 'the list to show the new run');
}

/** Hands each chunk on later, both ways. */
async function slowProxy(target: string): Promise<{ address: string; close: () => void }> {
  const [host, port] = target.split(':');
  const sockets = new Set<Socket>();
  const handOn = (from: Socket, to: Socket) => {
    sockets.add(from);
    from.setNoDelay();
    from.on('data', (chunk) => setTimeout(() => to.writable && to.write(chunk), ONE_WAY_MS));
    from.on('error', () => {});
    from.on('close', () => to.destroy());
  };
  const server = createServer((caller) => {
    const upstream = connect(Number(port), host);
    handOn(caller, upstream);
    handOn(upstream, caller);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}

/** Whoever's payloads are encoded reads and writes all of them so. */
async function callsWithCodec(system: System, caller: Caller): Promise<void> {
  const CODEC = { CODEC: '1' };
  const attach = () => call(system, caller, ['attach', 'encoded', 'job-1'], CODEC).answer;
  expect(await attach()).toEqual({ isNew: true });
  expect(await attach()).toEqual({ isNew: false });
  const { workflow } = system.server.client;
  const workflowId = 'agent-job/trials/encoded';
  await workflow.getHandle(workflowId).terminate('before it began');
  const sent = call(system, caller, ['followUp', 'encoded', 'on', 'on'], CODEC);
  await sent.running(async () => (await runsOf(system, workflowId)).length === 2, 'a second run');
  const { events } = await workflow.getHandle(workflowId).fetchHistory();
  const { input, memo } = events?.[0]?.workflowExecutionStartedEventAttributes ?? {};
  const payloads = [input?.payloads?.[0], memo?.fields?.['inputHash']];
  for (const payload of payloads)
    expect(Buffer.from(payload?.metadata?.['encoding'] ?? []).toString()).toBe('binary/zlib');
  expect(inflateSync(payloads[0]!.data!).toString()).toContain('"jobId":"job-1"');
  // No worker will answer it.
  await sent.end();
}

/** Each with what it shows. */
export const TRIALS = [
  ['a follow-up that nobody answers is unconfirmed, with its id, and is sent once', followUpWithoutWorker],
  ['a follow-up to a run that no worker began is sent', followUpOfUnbegunRun],
  ['an id that is said again with another prompt is refused', idWithAnotherPrompt],
  ['a key that was refused often starts again over a slow network', keyRefusedOften],
  ["the client's payload codec is used throughout", callsWithCodec],
] as const;
