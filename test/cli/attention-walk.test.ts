import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { QUICK, startJobServer, type JobServer } from '../client/job-server.js';
import { connectPrivateDevServer } from '../support/dev-server.js';
import { envOf, runCli, runOnTerminal } from './run-cli.js';

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

test(
  'at a terminal attention shows the prompt and settles what the person decides; else it lists',
  async () => {
    const marker = randomUUID();
    const job = await inDoubt(`Mend the footer ${marker}\nand \u001B[2J nothing else`);
    const list = () => runCli(['attention'], { env: envOf(server) });
    await expect.poll(async () => (await list()).stdout, { timeout: 60_000 }).toContain(job.workflowId);
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
