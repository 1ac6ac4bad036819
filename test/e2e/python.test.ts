import { execFile, type ExecFileException } from 'node:child_process';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import type { AgentJobResult } from '../../src/contract.js';
import { inputHash } from '../../src/agent-job/input.js';
import { fetchPythonPackage } from '../support/python-packages.js';
import {
  expectedSteps,
  expectedTraces,
  prepareStory,
  README_TRACES,
  readmeProgram,
  readmeTraces,
  readSteps,
  readTraces,
} from './language-story.js';
import { Caller, testTrials } from './language-trials.js';
import { usePrivateSystem } from './system.js';

const run = promisify(execFile);
const PROJECT_FOLDER = new URL('../../', import.meta.url).pathname;
const PYTHON_LIMIT_MS = 300_000;

// Its examples name their key: on a server of its own, no other test's job has it.
const system = usePrivateSystem({ script: { activeMs: 5_000 } });
let packages: string;

beforeAll(async () => {
  packages = await fetchPythonPackage('temporalio==1.35.0');
}, 600_000);

function pythonEnv(): NodeJS.ProcessEnv {
  return {
    PATH: process.env['PATH'],
    PYTHONDONTWRITEBYTECODE: '1',
    PYTHONPATH: `${packages}:${PROJECT_FOLDER}examples/python`,
  };
}

/** Runs a Python program that reaches nothing but a Temporal client and the server's address. */
async function python(program: string, ...args: string[]): Promise<string> {
  await system.haveWorker();
  const options = { cwd: PROJECT_FOLDER, env: { ...system.clientEnv(), ...pythonEnv() }, timeout: PYTHON_LIMIT_MS };
  // The client's own threads can crash an interpreter that is about to end, when all is said.
  const whole = `${program}\nimport os, sys\nsys.stdout.flush()\nos._exit(0)`;
  const { stdout } = await run('python3', ['-c', whole, ...args], options).catch((error: ExecFileException) => {
    throw new Error(`python3 ended with ${error.signal ?? error.code}: ${error.stderr}\n${error.stdout}`);
  });
  return stdout;
}

function example(...args: string[]): Promise<string> {
  return python('import runpy; runpy.run_path("examples/python/start_job.py", run_name="__main__")', ...args);
}

function found(pattern: RegExp, text: string): string {
  const match = pattern.exec(text);
  if (!match) throw new Error(`no ${pattern} in:\n${text}`);
  return match[1] ?? match[0];
}

test(
  'the example of a Python client starts, steers, reads and ends a job by the names of the contract',
  { timeout: 330_000 },
  async () => {
    const input = { projectId: 'py (thon)/1', prompt: 'Schreib «Grüße» 🐍\n' };
    const printed = await example('--project', input.projectId, '--key', 'a b', '--prompt', input.prompt);
    expect(found(/^Workflow (.+)$/m, printed)).toBe('agent-job/py%20%28thon%29%2F1/a%20b');
    expect(printed).toMatch(/^Follow-up test sent$/m);
    expect(printed).toMatch(/^State \w+ \S+$/m);
    const result = JSON.parse(found(/^Result (.+)$/m, printed)) as AgentJobResult;
    const [create, ...others] = await system.sandbox.creates({ projectId: input.projectId });
    expect(others).toEqual([]);
    expect(create?.prompt).toBe(input.prompt);
    expect(result).toMatchObject({
      outcome: 'completed',
      jobId: create?.id,
      job: { id: create?.id, prLink: expect.stringMatching(/^https:/) },
      followUps: [
        { id: 'short', state: 'sent' },
        { id: 'test', state: 'sent' },
      ],
      usedFollowUpIds: ['short', 'test'],
    });
    const messages = await system.sandbox.messages({ jobId: create?.id });
    expect(messages.map(({ prompt }) => prompt)).toEqual(['Keep it short', 'Add a test']);

    const { memo } = await system.server.client.workflow.getHandle('agent-job/py%20%28thon%29%2F1/a%20b').describe();
    expect(memo?.['inputHash']).toBe(inputHash(input));
  },
);

test('a Python program tells the whole story of the contract', { timeout: 330_000 }, async () => {
  const projectId = 'story-python';
  await prepareStory(system, projectId);
  const printed = await python(
    'import runpy; runpy.run_path("examples/python/story.py", run_name="__main__")',
    projectId,
  );
  expect(readSteps(printed)).toEqual(await expectedSteps(system, projectId));
  expect(await readTraces(system, projectId)).toEqual(expectedTraces(projectId));
});

test("README's Python snippet runs as it is written", { timeout: 330_000 }, async () => {
  const lines = (await readmeProgram(system, 'python', 'jobs.start')).split('\n');
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
  expect(await readmeTraces(system)).toEqual(README_TRACES);
});

test(
  'from Python, an input that the types forbid is refused before anything is sent',
  { timeout: 330_000 },
  async () => {
    const printed = await python(`
import asyncio
from agent_jobs import AgentJobs
for given in ({}, {"prompt": "x", "jobId": "j"}, {"prompt": "x", "deadlne": 1}, {"jobId": "j", "polling": {"mx": 1}}):
    try:
        asyncio.run(AgentJobs(None).start("k", {"projectId": "acme", **given}))
    except Exception as error:
        print(type(error).__name__, error)
for key, project in ((None, "acme"), ("k", None)):
    try:
        asyncio.run(AgentJobs(None).start(key, {"projectId": project, "prompt": "x"}))
    except Exception as error:
        print(type(error).__name__, str(error)[:20])`);
    expect(printed.trim().split('\n')).toEqual([
      'ValueError prompt or jobId must be given, exactly one of the two',
      'ValueError prompt or jobId must be given, exactly one of the two',
      'ValueError deadlne is no field that agent_job_types.py knows',
      'ValueError polling.mx is no field that agent_job_types.py knows',
      'ValueError key must be well-for',
      'ValueError projectId must be gi',
    ]);
  },
);

let caller: Caller | undefined;

function startCaller(): Caller {
  return (caller ??= new Caller(system, 'python3', [`${PROJECT_FOLDER}test/e2e/callers/call.py`], pythonEnv()));
}

testTrials('Python', system, 330_000, async () => startCaller());

test('from Python, an empty id is refused', { timeout: 330_000 }, async () => {
  expect(await startCaller().call(['followUp', 'k', 'x', '']).answer).toEqual({ error: 'refused' });
});
