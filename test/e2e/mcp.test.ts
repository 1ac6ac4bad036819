/** The tools as the official client of Python calls them, over each way there is. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { HttpServer } from '../../src/http/server.js';
import { AgentJobs } from '../../src/starter.js';
import { cliProgram } from '../cli/run-cli.js';
import { fetchPythonPackage } from '../support/python-packages.js';
import { useSystem } from './system.js';

const run = promisify(execFile);
const PROGRAM = fileURLToPath(new URL('mcp_agent.py', import.meta.url));
const LIMIT_MS = 120_000;

const system = useSystem({ script: { activeMs: 2_000 } });
let packages: string;
beforeAll(async () => {
  packages = await fetchPythonPackage('mcp==2.3.0');
}, 600_000);

/** What the program prints, line by line. */
async function agent(projectId: string, prompt: string, ...server: string[]) {
  const env = { PATH: process.env['PATH'], PYTHONDONTWRITEBYTECODE: '1', PYTHONPATH: packages, no_proxy: '*' };
  const options = { env: { ...system.clientEnv(), ...env }, timeout: LIMIT_MS };
  const { stdout } = await run('python3', [PROGRAM, projectId, prompt, ...server], options);
  const lines = stdout.trim().split('\n');
  return lines.map((line) => JSON.parse(line));
}

/** The agent's last result, and the count of creates upstream. */
async function story(...server: string[]) {
  await system.haveWorker();
  const projectId = `mcp-${randomUUID()}`;
  const [tools, started, again, sent, waited, missing] = await agent(projectId, 'do it', ...server);
  expect(tools).toEqual(['start_job', 'send_follow_up', 'get_job', 'wait_for_job', 'list_jobs']);
  expect([started.body.isNew, again.body.isNew, again.body.key]).toEqual([true, false, started.body.key]);
  expect(sent).toMatchObject({ isError: false, body: { id: 'tests', state: 'sent' } });
  expect(missing).toMatchObject({ isError: true, body: { status: 404, code: 'JOB_NOT_FOUND' } });
  const creates = await system.sandbox.creates({ projectId });
  return { ...waited.body.result, creates: creates.length };
}

const TOLD = { outcome: 'completed', followUps: [{ id: 'tests', state: 'sent' }], creates: 1 };

test('an agent works with a job over standard input and output', async () => {
  expect(await story(process.execPath, cliProgram, 'mcp')).toMatchObject(TOLD);
});

test('an agent works with a job over HTTP', async () => {
  const { client, taskQueue } = system.server;
  const problems: string[] = [];
  const onProblem = (problem: string) => void problems.push(problem);
  const jobs = new AgentJobs({ client, taskQueue });
  const service = { connect: () => Promise.resolve(jobs), keys: null, version: '1.2.3', onProblem };
  const http = await HttpServer.listen(service, { host: '127.0.0.1', port: 0 });
  try {
    expect(await story(`${http.url}/mcp`)).toMatchObject(TOLD);
    expect(problems).toEqual([]);
  } finally {
    await http.end();
  }
});
