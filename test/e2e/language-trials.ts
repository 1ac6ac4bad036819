/** What the clients of other languages have to stand besides their story: no worker, a slow network, a codec. */
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { inflateSync } from 'node:zlib';
import { afterAll, expect, test, type TestContext } from 'vitest';
import { AgentJobs } from '../../src/starter.js';
import { until } from '../support/worker-process.js';
import type { usePrivateSystem } from './system.js';

type System = ReturnType<typeof usePrivateSystem>;

const CALL_LIMIT_MS = 240_000;
/** Characters of a program's output that the error of its end shows. */
const MOST_SAID = 10_000;

/** What one call is: its name, its key, the text that it hands on, and the id of a follow-up. */
type Call = [name: string, key: string, text: string, id?: string];

/**
 * The program that makes the calls of a language's client, one after another: each is a line of JSON on its standard
 * input, and so is the answer on its standard output. An empty line gives up the call that is under way.
 */
export class Caller {
  readonly #system: System;
  readonly #start: () => ChildProcessWithoutNullStreams;
  #program: ChildProcessWithoutNullStreams | undefined;
  #said = '';

  constructor(system: System, program: string, args: string[], env: NodeJS.ProcessEnv) {
    this.#system = system;
    this.#start = () => spawn(program, args, { env: { ...env, ...system.clientEnv(), PROJECT: projectId } });
  }

  call(args: Call, { address = this.#system.server.address, codec = false } = {}) {
    const program = this.#running();
    const answer = this.#nextLine(program).then(
      (line) => JSON.parse(line) as { id?: string },
      (error: Error) => {
        throw new Error(`the call ${args.join(' ')} failed:\n${error.message}`);
      },
    );
    answer.catch(() => {}); // It is awaited later.
    program.stdin.write(`${JSON.stringify({ args, address, codec })}\n`);
    /** Until something comes of it; a call that fails before says why. */
    const running = (holds: () => Promise<boolean>, what: string) =>
      Promise.race([answer, until(holds, what, undefined, CALL_LIMIT_MS)]);
    return { answer, giveUp: () => void program.stdin.write('\n'), running };
  }

  /** The next call has a program of its own. */
  async end(): Promise<void> {
    const program = this.#program;
    if (!program) return;
    program.kill('SIGKILL');
    await once(program, 'close');
  }

  #running(): ChildProcessWithoutNullStreams {
    if (this.#program) return this.#program;
    const program = (this.#program = this.#start());
    this.#said = '';
    for (const stream of [program.stdout, program.stderr])
      stream.on('data', (chunk: Buffer) => (this.#said = `${this.#said}${chunk.toString()}`.slice(-MOST_SAID)));
    program.stdin.on('error', () => {}); // Its end is told by the answer that does not come.
    program.once('close', () => (this.#program = undefined));
    return program;
  }

  async #nextLine(program: ChildProcessWithoutNullStreams): Promise<string> {
    const over = new AbortController();
    const signal = AbortSignal.any([over.signal, AbortSignal.timeout(CALL_LIMIT_MS)]);
    const lines = createInterface({ input: program.stdout });
    const line = once(lines, 'line', { signal }).then(([text]) => text as string);
    const ended = once(program, 'close', { signal }).then(() => Promise.reject(new Error(this.#said)));
    try {
      return await Promise.race([line, ended]);
    } finally {
      lines.close();
      over.abort();
      await Promise.allSettled([line, ended]);
    }
  }
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
  await system.haveWorker();
  const job = await jobsOf(system).start({ key: 'late', projectId, prompt: 'late' });
  for await (const { jobId } of job.watch()) if (jobId !== null) break;
  const { runId: first } = await system.server.client.workflow.getHandle(job.workflowId).describe();
  await job.cancel();
  await job.result().catch(() => {});
  await job.sendFollowUp('first', { id: 'first' });
  const { jobId } = await job.result();
  await system.endWorkers();

  const late = caller.call(['followUp', 'late', 'second']);
  // The ids are attached once the first attempt is over.
  const isOver = async () => (await runsOf(system, job.workflowId)).length === 3;
  const isAttached = async () => (await attachedIds(system, job.workflowId)).includes(`agent-jobs/after/${first}`);
  await late.running(async () => (await isOver()) && (await isAttached()), 'a third run that knows the first');
  await delay(NEXT_ATTEMPT_MS);
  late.giveUp();
  const told = await late.answer;
  expect(told).toEqual({ error: 'unconfirmed', id: expect.stringMatching(/./) });

  await system.haveWorker();
  const repeated = caller.call(['followUp', 'late', 'second', told.id!]);
  expect(await repeated.answer).toEqual({ state: 'sent' });
  await job.result();
  const messages = await system.sandbox.messages({ jobId: jobId! });
  expect(messages.map(({ prompt }) => prompt)).toEqual(['first', 'second']);
}

/** An attached run that was ended before a worker began it answers no query; what it was given is all it knows. */
async function followUpOfUnbegunRun(system: System, caller: Caller): Promise<void> {
  await system.haveWorker();
  const jobs = jobsOf(system);
  await system.sandbox.addScript({ projectId, promptIncludes: 'unbegun', script: { activeMs: 100 } });
  const { jobId } = await (await jobs.start({ key: 'unbegun', projectId, prompt: 'unbegun' })).result();
  await system.endWorkers();
  const given = { key: 'attached', projectId, jobId: jobId!, usedFollowUpIds: ['used'] };
  const { workflowId } = await jobs.attach(given);
  await system.server.client.workflow.getHandle(workflowId).terminate('before it began');
  await system.haveWorker();
  expect(await caller.call(['followUp', 'attached', 'x', 'used']).answer).toEqual({ state: 'unknown' });
  expect(await caller.call(['followUp', 'attached', 'y', 'new']).answer).toEqual({ state: 'sent' });
  const messages = await system.sandbox.messages({ jobId: jobId! });
  expect(messages.map(({ prompt }) => prompt)).toEqual(['y']);
  expect(await caller.call(['followUp', 'no such key', 'z', 'z']).answer).toEqual({ error: 'refused' });
}

/** Whether the job still runs or has ended. */
async function idWithAnotherPrompt(system: System, caller: Caller): Promise<void> {
  await system.haveWorker();
  const job = await jobsOf(system).start({ key: 'conflict', projectId, prompt: 'conflict' });
  const say = (prompt: string) => caller.call(['followUp', 'conflict', prompt, 'one']).answer;
  expect(await say('first')).toEqual({ state: 'sent' });
  expect(await say('other')).toEqual({ error: 'refused' });
  const { jobId } = await job.result();
  expect(await say('other')).toEqual({ error: 'refused' });
  expect(await say('first')).toEqual({ state: 'sent' });
  const messages = await system.sandbox.messages({ jobId: jobId! });
  expect(messages.map(({ prompt }) => prompt)).toEqual(['first']);
}

/** An empty one, such as a variable that is not set, would be one job for all. */
async function keyThatIsNone(_system: System, caller: Caller): Promise<void> {
  for (const key of ['', 'two\nlines', 'k'.repeat(255)])
    expect(await caller.call(['start', key, 'x']).answer).toEqual({ error: 'invalid' });
}

const REFUSALS = 40;
const ONE_WAY_MS = 75;

/** Reading all of them one after another takes longer than a start may come after it. */
async function keyRefusedOften(system: System, caller: Caller): Promise<void> {
  await system.haveWorker();
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
    const started = caller.call(['start', 'refused', 'refused'], { address: proxy.address });
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
  const attach = () => caller.call(['attach', 'encoded', 'job-1'], { codec: true }).answer;
  expect(await attach()).toEqual({ isNew: true });
  expect(await attach()).toEqual({ isNew: false });
  const { workflow } = system.server.client;
  const workflowId = 'agent-job/trials/encoded';
  await workflow.getHandle(workflowId).terminate('before it began');
  const sent = caller.call(['followUp', 'encoded', 'on', 'on'], { codec: true });
  await sent.running(async () => (await runsOf(system, workflowId)).length === 2, 'a second run');
  const { events } = await workflow.getHandle(workflowId).fetchHistory();
  const { input, memo } = events?.[0]?.workflowExecutionStartedEventAttributes ?? {};
  const payloads = [input?.payloads?.[0], memo?.fields?.['inputHash']];
  for (const payload of payloads)
    expect(Buffer.from(payload?.metadata?.['encoding'] ?? []).toString()).toBe('binary/zlib');
  expect(inflateSync(payloads[0]!.data!).toString()).toContain('"jobId":"job-1"');
  // No worker will answer it.
  await caller.end();
}

const TRIALS = [
  ['a follow-up that nobody answers is unconfirmed, with its id, and is sent once', followUpWithoutWorker],
  ['a follow-up to a run that no worker began is sent', followUpOfUnbegunRun],
  ['an id that is said again with another prompt is refused', idWithAnotherPrompt],
  ['a key that is empty, too long or has a line break starts nothing', keyThatIsNone],
  ['a key that was refused often starts again over a slow network', keyRefusedOften],
  ["the client's payload codec is used throughout", callsWithCodec],
] as const;

/** One test for each; the program that makes the calls serves all of them. */
export function testTrials(
  language: string,
  system: System,
  timeout: number,
  startCaller: (context: Pick<TestContext, 'skip'>) => Promise<Caller>,
): void {
  const callers = new Set<Caller>();
  test.for(TRIALS)(`from ${language}, %s`, { timeout }, async ([, trial], context) => {
    const caller = await startCaller(context);
    callers.add(caller);
    // What a call that failed may still say is no answer to the next one.
    const failed = (error: unknown) => caller.end().then(() => Promise.reject(error as Error));
    await expect(trial(system, caller).catch(failed)).resolves.toBeUndefined();
  });
  afterAll(async () => {
    for (const caller of callers) await caller.end();
  });
}
