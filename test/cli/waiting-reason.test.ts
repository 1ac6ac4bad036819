import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { printWaitingReasons } from '../../src/cli/waiting-reason.js';
import { AgentJobs, type JobHandle } from '../../src/starter.js';
import { QUICK, startJobServer, type JobServer } from '../client/job-server.js';
import { envOf, runCli } from './run-cli.js';

const MOST_MS = 240_000;

let server: JobServer;
beforeAll(async () => {
  server = await startJobServer();
}, MOST_MS);
afterAll(() => server.close());

/** What a person who waits for the job is told first. */
async function firstNews(job: JobHandle): Promise<string> {
  const enough = new AbortController();
  const said: string[] = [];
  await printWaitingReasons(job, enough.signal, (line) => {
    said.push(line);
    enough.abort();
  });
  return said.join('\n');
}

test(
  'whoever waits for a job that needs a person is told so, and which command shows more',
  async () => {
    const prompt = `prompt ${randomUUID()}`;
    await server.sandbox.addFault({ kind: 'reset', effect: 'after', promptIncludes: prompt });
    const job = await server.jobs.start({ key: randomUUID(), projectId: server.projectId, prompt, ...QUICK });
    expect(await firstNews(job)).toMatch(
      new RegExp(
        '^agent-jobs: still waiting: the job waits for a person; ' +
          '"npx agent-jobs attention" shows what can be done \\(.+\\)$',
      ),
    );
    await job.resolve({ action: 'abandon' });
  },
  MOST_MS,
);

test(
  'whoever waits for a job that no worker serves is told the task queue',
  async () => {
    const taskQueue = `nobody-${randomUUID()}`;
    const jobs = new AgentJobs({ client: server.client, taskQueue });
    const job = await jobs.start({ key: randomUUID(), projectId: server.projectId, prompt: 'hello' });
    expect(await firstNews(job)).toContain(`no worker polls the task queue "${taskQueue}"`);
    await server.client.workflow.getHandle(job.workflowId).terminate();
  },
  MOST_MS,
);

test(
  'the command wait tells what holds its job',
  async () => {
    const prompt = `prompt ${randomUUID()}`;
    await server.sandbox.addFault({ kind: 'reset', effect: 'after', promptIncludes: prompt });
    const options = ['--project', server.projectId, '--decide-within', '30s', '--wait'];
    const { code, stderr } = await runCli(['start', ...options, prompt], { env: envOf(server) });
    expect(stderr).toContain('agent-jobs: still waiting: the job waits for a person');
    expect(code).toBe(8);
  },
  MOST_MS,
);

test(
  'the command state tells what to do about a key that the upstream refuses',
  async () => {
    const projectId = `refused-${randomUUID()}`;
    await server.sandbox.addFault({ kind: 'status', status: 401, projectId, count: 1_000 });
    const job = await server.jobs.start({ key: randomUUID(), projectId, prompt: 'hello', ...QUICK });
    await expect.poll(async () => (await job.state()).waiting?.for, { timeout: 60_000 }).toBe('key');
    const { stdout } = await runCli(['state', job.workflowId], { env: envOf(server) });
    expect(stdout).toMatch(/What to do +give the worker a key that the upstream takes \(ADMIN_API_KEY/);
    await job.cancel();
  },
  MOST_MS,
);

test(
  'jobs that wait for the upstream’s rate limit are listed by it, and a follow-up says so while it is awaited',
  async () => {
    const projectId = `busy-${randomUUID()}`;
    const message = `message ${randomUUID()}`;
    const job = await server.jobs.start({ key: 'k', projectId, prompt: 'hello', linger: '1 hour', ...QUICK });
    await expect.poll(async () => (await job.state()).phase, { timeout: 60_000 }).toBe('lingering');
    const busy = { kind: 'status', status: 429, retryAfter: 30, promptIncludes: message } as const;
    await server.sandbox.addFault(busy);
    const sending = runCli(['follow-up', job.workflowId, message, '--wait'], { env: envOf(server) });
    const list = () => runCli(['list', '--project', projectId, '--waiting-for', 'rateLimit'], { env: envOf(server) });
    await expect
      .poll(async () => (await list()).stdout, { timeout: 60_000 })
      .toMatch(/PHASE +WAITS FOR.*\n.*sending +rateLimit /);
    const { code, stderr, stdout } = await sending;
    expect(stderr).toMatch(
      /still waiting: the job waits for the upstream’s rate limit.*; it goes on by itself.* \(.*429.*\)/,
    );
    expect(stdout).toMatch(/State +sent/);
    expect(code).toBe(0);
    await expect.poll(async () => (await list()).stdout, { timeout: 60_000 }).toBe('no jobs\n');
    await job.cancel();
  },
  MOST_MS,
);
