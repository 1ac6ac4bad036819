import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { QUICK, startJobServer, type JobServer } from '../client/job-server.js';
import { connectPrivateDevServer } from '../support/dev-server.js';
import { envOf, jsonLines, runCli, runOnTerminal } from './run-cli.js';

const MOST_MS = 240_000;

let server: JobServer;
beforeAll(async () => {
  // The list is of the whole namespace, and the jobs of other tests are theirs.
  server = await startJobServer(await connectPrivateDevServer());
}, MOST_MS);
afterAll(() => server.close());

async function inDoubt(prompt: string) {
  await server.sandbox.addFault({ kind: 'reset', effect: 'after', promptIncludes: prompt });
  const job = await server.jobs.start({ key: randomUUID(), projectId: server.projectId, prompt, ...QUICK });
  await expect.poll(async () => (await job.state()).phase, { timeout: 60_000 }).toBe('needsAttention');
  return job;
}

async function isListed(workflowId: string, shown: object): Promise<void> {
  const ids = async () => jsonLines((await runCli(['list', '--json'], { env: envOf(server) })).stdout);
  await expect.poll(ids, { timeout: 60_000 }).toContainEqual(expect.objectContaining({ workflowId, ...shown }));
}

test(
  'at a terminal attention shows the prompt and settles what the person decides; else it lists',
  async () => {
    const marker = randomUUID();
    const job = await inDoubt(`Mend the footer ${marker}\nand \u001B[2J nothing else`);
    const list = () => runCli(['attention'], { env: envOf(server) });
    await expect.poll(async () => (await list()).stdout, { timeout: 60_000 }).toContain(job.workflowId);
    const told = (await list()).stdout;
    expect(told).toContain(`\nPrompt\n  Mend the footer ${marker}\n  and  [2J nothing else\n`);
    const hidden = await runCli(['attention'], { env: { ...envOf(server), AGENT_JOBS_HIDE_PROMPTS: 'true' } });
    expect(hidden.stdout).toContain(job.workflowId);
    expect(hidden.stdout).not.toContain('Mend the footer');
    const types = [
      [/uit\? $/, 'x\n'],
      [/uit\? $/, 'g\n'],
      [/\[y\/N\] $/, 'n\n'],
      [/uit\? $/, 'g\n'],
      [/\[y\/N\] $/, 'y\n'],
    ] as const;
    const { code, output } = await runOnTerminal(['attention'], { env: envOf(server), types });
    expect(output).toContain(`  Mend the footer ${marker}\r\n  and  [2J nothing else`);
    expect(output).toContain('that is none of them');
    expect(output).toContain('nothing was done');
    expect(output).toContain('settled with abandon');
    expect(output).not.toContain('\u001B[2J');
    expect(code).toBe(0);
    const { decisions, outcome } = await job.result();
    expect(outcome).toBe('abandoned');
    expect(decisions).toMatchObject([{ action: 'abandon', by: expect.stringContaining('@') }]);
  },
  MOST_MS,
);

test(
  'at a terminal attention warns of a job that another workflow has',
  async () => {
    const [marker, other] = [randomUUID(), `other ${randomUUID()}`];
    await server.sandbox.addScript({ promptIncludes: other, script: { activeMs: 3_600_000 } });
    const driver = await server.jobs.start({ key: randomUUID(), projectId: server.projectId, prompt: other, ...QUICK });
    await expect.poll(async () => (await driver.state()).jobId, { timeout: 60_000 }).not.toBeNull();
    const { jobId } = await driver.state();
    const job = await inDoubt(`prompt ${marker}`);
    await isListed(driver.workflowId, { jobId });
    await isListed(job.workflowId, { phase: 'needsAttention' });
    const types = [
      [/uit\? $/, 'a\n'],
      [/Id of the job: $/, `${jobId}\n`],
      [/\[y\/N\] $/, 'n\n'],
      [/uit\? $/, 'q\n'],
    ] as const;
    const { output } = await runOnTerminal(['attention'], { env: envOf(server), types });
    expect(output).toContain(`warning: the workflow ${driver.workflowId} has the job ${jobId} already`);
    expect((await job.state()).unknown).not.toBeNull();
    for (const one of [driver, job]) await one.cancel();
  },
  MOST_MS,
);

test(
  'what can not be undone is asked at a terminal, and not in a script',
  async () => {
    const prompt = `prompt ${randomUUID()}`;
    await server.sandbox.addScript({ promptIncludes: prompt, script: { activeMs: 3_600_000 } });
    const job = await server.jobs.start({ key: randomUUID(), projectId: server.projectId, prompt, ...QUICK });
    const env = envOf(server);
    const declined = await runOnTerminal(['cancel', job.workflowId], { env, types: [[/\[y\/N\] $/, '\n']] });
    expect(declined.output).toContain('agent-jobs: nothing was done');
    expect(declined.code).toBe(1);
    const interrupted = await runOnTerminal(['cancel', job.workflowId], { env, types: [[/\[y\/N\] $/, '\u0003']] });
    expect(interrupted.code).toBe(130);
    expect((await job.state()).phase).toBe('watching');
    const agreed = await runOnTerminal(['cancel', job.workflowId, '--yes'], { env });
    expect(agreed.output).toContain('is asked to end');
    expect(agreed.output).not.toContain('[y/N]');
    await expect(job.result()).rejects.toMatchObject({ name: 'JobCanceledError' });
  },
  MOST_MS,
);
