/** The Python example on a real server: its programs, the page's lines, and calls under trouble. */
import { execFile, type ExecFileException } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { inflateSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AgentJobResult } from '../../src/contract.js';
import { inputHash } from '../../src/agent-job/input.js';
import { AgentJobs } from '../../src/starter.js';
import { startJobsWorker } from '../support/jobs-worker.js';
import { fetchPythonPackage } from '../support/python-packages.js';
import { until } from '../support/worker-process.js';
import {
  expectedSteps,
  expectedTraces,
  prepareStory,
  PAGE_TRACES,
  pageProgram,
  pageTraces,
  readSteps,
  readTraces,
} from './language-story.js';
import { PythonCaller, slowProxy } from './python-caller.js';
import { usePrivateSystem } from './system.js';

const run = promisify(execFile);
const PROJECT_FOLDER = new URL('../../', import.meta.url).pathname;
const LIMIT_MS = 330_000;
/** The project of the calls. */
const projectId = 'trials';
/** How long an end after a follow-up must stand. */
const settle = '1 second';

// Its examples name their key: on a server of its own, no other test's job has it.
const system = usePrivateSystem({ script: { activeMs: 3_000 } });
let env: NodeJS.ProcessEnv;
let caller: PythonCaller;

beforeAll(async () => {
  const packages = await fetchPythonPackage('temporalio==1.35.0');
  env = {
    ...system.clientEnv(),
    PATH: process.env['PATH'],
    PYTHONDONTWRITEBYTECODE: '1',
    PYTHONPATH: `${packages}:${PROJECT_FOLDER}examples/python`,
  };
  caller = new PythonCaller({ ...env, PROJECT: projectId });
}, 600_000);
afterAll(() => caller.end());

/** Runs a Python program that reaches nothing but a Temporal client and the server's address. */
async function python(program: string, ...args: string[]): Promise<string> {
  // The client's own threads can crash an interpreter that is about to end, when all is said.
  const whole = `${program}\nimport os, sys\nsys.stdout.flush()\nos._exit(0)`;
  const options = { cwd: PROJECT_FOLDER, env, timeout: LIMIT_MS };
  const { stdout } = await run('python3', ['-c', whole, ...args], options).catch((error: ExecFileException) => {
    throw new Error(`python3 ended with ${error.signal ?? error.code}: ${error.stderr}\n${error.stdout}`);
  });
  return stdout;
}

function program(path: string, ...args: string[]): Promise<string> {
  return python(`import runpy; runpy.run_path("${path}", run_name="__main__")`, ...args);
}

function call(...args: Parameters<PythonCaller['call']>[0]) {
  return caller.call(args, system.server.address);
}

function jobs(): AgentJobs {
  const { client, taskQueue } = system.server;
  return new AgentJobs({ client, taskQueue });
}

function found(pattern: RegExp, text: string): string {
  const match = pattern.exec(text);
  if (!match) throw new Error(`no ${pattern} in:\n${text}`);
  return match[1] ?? match[0];
}

async function promptsSentTo(jobId: string | null): Promise<string[]> {
  const messages = await system.sandbox.messages({ jobId: jobId! });
  return messages.map(({ prompt }) => prompt);
}

/** Run ids of a workflow, however their memos are encoded. */
async function runsOf(workflowId: string): Promise<string[]> {
  const { client, namespace } = system.server;
  const query = `WorkflowId = '${workflowId}'`;
  const { executions } = await client.workflowService.listWorkflowExecutions({ namespace, query });
  return executions.map(({ execution }) => execution?.runId ?? '');
}

// Programs mostly wait: they wait side by side.
describe.concurrent('from Python, with a worker', { timeout: LIMIT_MS }, () => {
  let endWorker: () => Promise<void>;
  beforeAll(async () => {
    const { server, sandbox } = system;
    endWorker = await startJobsWorker(server, server.taskQueue, sandbox);
  });
  afterAll(() => endWorker());

  test('the example starts, steers and ends a job by the names of the contract', async () => {
    const input = { projectId: 'py (thon)/1', prompt: 'Schreib «Grüße» 🐍\n' };
    const printed = await program('examples/python/start_job.py', input.projectId, 'a b', input.prompt);
    expect(found(/^Workflow (.+)$/m, printed)).toBe('agent-job/py%20%28thon%29%2F1/a%20b');
    expect(printed).toMatch(/^Follow-up test sent$/m);
    const result = JSON.parse(found(/^Result (.+)$/m, printed)) as AgentJobResult;
    const [create, ...others] = await system.sandbox.creates({ projectId: input.projectId });
    expect(others).toEqual([]);
    expect(create?.prompt).toBe(input.prompt);
    expect(result).toMatchObject({
      outcome: 'completed',
      jobId: create?.id,
      prLinks: [result.prLink],
      job: { id: create?.id, prLink: expect.stringMatching(/^https:/) },
      followUps: [
        { id: 'short', state: 'sent' },
        { id: 'test', state: 'sent' },
      ],
      usedFollowUpIds: ['short', 'test'],
    });
    expect(await promptsSentTo(result.jobId)).toEqual(['Keep it short', 'Add a test']);
    const { memo } = await system.server.client.workflow.getHandle('agent-job/py%20%28thon%29%2F1/a%20b').describe();
    expect(memo?.['inputHash']).toBe(inputHash(input));
  });

  test('a program tells the whole story of the contract', async () => {
    await prepareStory(system, 'story-python');
    const printed = await program('test/e2e/python_story.py', 'story-python');
    expect(readSteps(printed)).toEqual(await expectedSteps(system, 'story-python'));
    expect(await readTraces(system, 'story-python')).toEqual(expectedTraces('story-python'));
  });

  test("the page's lines run as they are written", async () => {
    const lines = (await pageProgram(system, 'python', 'jobs.start')).split('\n');
    const isImport = (line: string) => line.startsWith('from ');
    const program = [
      'import asyncio',
      ...lines.filter(isImport),
      'async def main():',
      ...lines.filter((line) => !isImport(line)).map((line) => `  ${line}`),
      '  print(result["outcome"])',
      'asyncio.run(main())',
    ].join('\n');
    expect(await python(program)).toBe('completed\n');
    expect(await pageTraces(system)).toEqual(PAGE_TRACES);
  });

  test('an input that the types forbid is invalid before anything is sent', async () => {
    const printed = await python(`
import asyncio
from agent_jobs import AgentJobs
GIVEN = [{}, {"prompt": "x", "jobId": "j"}, {"prompt": "x", "deadlne": 1}, {"jobId": "j", "polling": {"mx": 1}}]
for given in [*GIVEN, {"prompt": "x", "projectId": None}]:
    try:
        asyncio.run(AgentJobs(None).start("k", {"projectId": "acme", **given}))
    except Exception as error:
        print(type(error).__name__, error)
class Unused:
    def get_workflow_handle(self, *_): ...
job = AgentJobs(Unused()).job("acme", "k")
PROMPTS = ["\\ud800", None, "", "x" * 600_000]
for prompt, id in [*((prompt, None) for prompt in PROMPTS), ("x", "\\ud800"), ("x", ""), ("x", 7)]:
    try:
        asyncio.run(job.follow_up(prompt, id=id))
    except Exception as error:
        print(type(error).__name__)`);
    const wrong = 'ValueError projectId must be given, and exactly one of prompt and jobId';
    const unknown = (name: string) => `ValueError ${name} is no field that agent_jobs.py knows`;
    const told = [wrong, wrong, unknown('deadlne'), unknown('polling.mx'), wrong];
    expect(printed.trim().split('\n')).toEqual([...told, ...Array<string>(7).fill('FollowUpRefused')]);
  });

  test('an id that is said again with another prompt conflicts, whether the job runs or has ended', async () => {
    const job = await jobs().start({ key: 'conflict', projectId, prompt: 'conflict', settle });
    const say = (prompt: string) => call('followUp', 'conflict', prompt, 'one').answer;
    expect(await say('first')).toEqual({ state: 'sent' });
    expect(await say('other')).toEqual({ error: 'refused' });
    const { jobId } = await job.result();
    expect(await say('other')).toEqual({ error: 'refused' });
    expect(await say('first')).toEqual({ state: 'sent' });
    expect(await promptsSentTo(jobId)).toEqual(['first']);
  });

  test('a key that is empty, too long or has a line break starts nothing, and an empty id is invalid', async () => {
    for (const key of ['', 'two\nlines', 'k'.repeat(255)])
      expect(await call('start', key, 'x').answer).toEqual({ error: 'ValueError' });
    expect(await call('followUp', 'k', 'x', '').answer).toEqual({ error: 'refused' });
  });

  test('a key whose create was rejected 40 times starts again over a slow network', async () => {
    // Reading 40 runs one after another takes longer than a start may come after it.
    const rejections = 40;
    const { client, taskQueue, address } = system.server;
    const workflowId = 'agent-job/trials/rejected';
    for (let i = 0; i < rejections; i++) {
      const options = { workflowId, taskQueue, args: [{ projectId, prompt: 'rejected', deadline: 'never' }] };
      const handle = await client.workflow.start('agentJob', options);
      await handle.result().catch(() => {});
    }
    const isListed = async (runs: number) => (await runsOf(workflowId)).length === runs;
    await until(() => isListed(rejections), 'the list to show all runs');
    const proxy = await slowProxy(address);
    try {
      expect(await caller.call(['start', 'rejected', 'rejected'], proxy.address).answer).toEqual({ isNew: true });
    } finally {
      proxy.close();
    }
    await until(() => isListed(rejections + 1), 'the list to show the new run');
  });
});

describe('from Python, while no worker is there', { timeout: LIMIT_MS }, () => {
  async function attachedIds(workflowId: string): Promise<string[]> {
    const { raw } = await system.server.client.workflow.getHandle(workflowId).describe();
    return Object.keys(raw.workflowExtendedInfo?.requestIdInfos ?? {});
  }

  /** Ends a run as a worker would that gave its input back. */
  async function endByHand(workflowId: string): Promise<void> {
    const { client, namespace, taskQueue: name } = system.server;
    const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
    const result = events?.[0]?.workflowExecutionStartedEventAttributes?.input ?? null;
    const poll = () => client.workflowService.pollWorkflowTaskQueue({ namespace, taskQueue: { name } });
    const { taskToken } = await client.withDeadline(Date.now() + 30_000, poll);
    const commandType = 4; // temporal.api.enums.v1.CommandType
    const commands = [{ commandType, completeWorkflowExecutionCommandAttributes: { result } }];
    await client.workflowService.respondWorkflowTaskCompleted({ namespace, taskToken, commands });
  }

  test('a follow-up without an answer is unconfirmed, has its id, and is sent once', async () => {
    await system.haveWorker();
    const job = await jobs().start({ key: 'late', projectId, prompt: 'late', settle });
    await until(async () => (await job.state()).jobId !== null, 'the job upstream');
    const { runId: first } = await system.server.client.workflow.getHandle(job.workflowId).describe();
    await job.cancel();
    await job.result().catch(() => {});
    await job.sendFollowUp('first', { id: 'first' });
    const { jobId } = await job.result();
    await system.endWorkers();

    const late = call('followUp', 'late', 'second');
    // The ids are attached once the first attempt is over.
    const isAttached = async () => (await attachedIds(job.workflowId)).includes(`agent-jobs/after/${first}`);
    const isOver = async () => (await runsOf(job.workflowId)).length === 3 && (await isAttached());
    await until(isOver, 'a third run that knows the first');
    await delay(2_000); // Much longer than the client waits between its attempts.
    late.giveUp();
    const told = await late.answer;
    expect(told).toEqual({ error: 'unconfirmed', id: expect.stringMatching(/./) });

    await system.haveWorker();
    expect(await call('followUp', 'late', 'second', told.id!).answer).toEqual({ state: 'sent' });
    await job.result();
    expect(await promptsSentTo(jobId)).toEqual(['first', 'second']);
  });

  test('a follow-up to a run that was ended before a worker began it, or to no run, is surely not sent', async () => {
    await system.endWorkers();
    const { workflowId } = await jobs().attach({ key: 'attached', projectId, jobId: 'job-1' });
    await system.server.client.workflow.getHandle(workflowId).terminate('before it began');
    expect(await call('followUp', 'attached', 'y', 'new').answer).toEqual({ error: 'refused' });
    expect(await call('followUp', 'no such key', 'z', 'z').answer).toEqual({ error: 'refused' });
  });

  test("the client's payload codec is used throughout", async () => {
    const { address, client } = system.server;
    const attach = () => caller.call(['attach', 'encoded', 'job-1'], address, { codec: true }).answer;
    expect(await attach()).toEqual({ isNew: true });
    expect(await attach()).toEqual({ isNew: false });
    const workflowId = 'agent-job/trials/encoded';
    await endByHand(workflowId);
    const sent = caller.call(['followUp', 'encoded', 'on', 'on'], address, { codec: true });
    await until(async () => (await runsOf(workflowId)).length === 2, 'a second run');
    sent.giveUp();
    const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
    const { input, memo } = events?.[0]?.workflowExecutionStartedEventAttributes ?? {};
    const payloads = [input?.payloads?.[0], memo?.fields?.['inputHash']];
    for (const payload of payloads)
      expect(Buffer.from(payload?.metadata?.['encoding'] ?? []).toString()).toBe('binary/zlib');
    expect(inflateSync(payloads[0]!.data!).toString()).toContain('"jobId":"job-1"');
  });
});
