import { randomUUID } from 'node:crypto';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { QUICK, startJobServer, type JobServer } from '../client/job-server.js';
import { envOf, jsonLines, runCli, runOnTerminal } from './run-cli.js';
import { runInProcess } from './run-in-process.js';

const MOST_MS = 240_000;

let server: JobServer;
beforeAll(async () => {
  server = await startJobServer();
}, MOST_MS);
afterAll(() => server.close());

async function started(projectId: string, status = 'active') {
  const prompt = `prompt ${randomUUID()}`;
  await server.sandbox.addScript({ promptIncludes: prompt, script: { steps: [{ status }] } });
  return server.jobs.start({ key: randomUUID(), projectId, prompt, ...QUICK });
}

test(
  'where there is no terminal, watch prints a line for each change, and how a job ended',
  async () => {
    const projectId = `watched-${randomUUID()}`;
    const job = await started(projectId);
    const env = envOf(server);
    const seen: string[] = [];
    let isOver = (): void => {};
    const interruptWhen = new Promise<void>((resolve) => (isOver = resolve));
    const onStdout = (soFar: string): void => {
      seen.splice(0, seen.length, ...soFar.split('\n'));
      if (soFar.includes('active') && !soFar.includes('cancelled')) void job.cancel().catch(() => {});
      if (soFar.includes('cancelled')) isOver();
    };
    const { code, stdout } = await runCli(['watch', '--project', projectId], { env, interruptWhen, onStdout });
    expect(stdout).toContain(`${job.workflowId}  watching  active\n`);
    expect(stdout).toContain(`${job.workflowId}  cancelled  active\n`);
    expect(new Set(seen).size).toBe(seen.length);
    expect(code).toBe(130);
  },
  MOST_MS,
);

test(
  'a condition of the caller restricts the list; one that is wrong is an error',
  async () => {
    const projectId = `watched-${randomUUID()}`;
    const [job] = [await started(projectId), await started(`other-${randomUUID()}`)];
    let isOver = (): void => {};
    const interruptWhen = new Promise<void>((resolve) => (isOver = resolve));
    const onStdout = (soFar: string): void => void (soFar.includes('watching') && isOver());
    const condition = `AgentJobProject = '${projectId}' OR AgentJobProject = 'nobody'`;
    const options = { env: envOf(server), interruptWhen, onStdout };
    const { stdout } = await runCli(['watch', condition, '--json'], options);
    const ids = new Set(jsonLines(stdout).map(({ workflowId }) => workflowId));
    expect([...ids]).toEqual([job!.workflowId]);
    const wrong = await runInProcess(['watch', 'Nonsense ='], { env: envOf(server) });
    expect(wrong.stderr).toContain('Temporal');
    expect(wrong.code).toBe(1);
  },
  MOST_MS,
);

test(
  'on a terminal watch and list fit its width, in colours, and what would control it has no effect',
  async () => {
    const projectId = `screen-${randomUUID()}`;
    const { workflowId } = await started(projectId, 'bad\u001B[2Jstatus');
    const env = envOf(server);
    const list = (...more: string[]) => runOnTerminal(['list', '--project', projectId, ...more], { env, columns: 60 });
    await expect.poll(async () => (await list()).output, { timeout: 120_000 }).toContain('bad [2J');
    const { output } = await list();
    expect(output).not.toContain('\u001B[2J');
    const wide = await runOnTerminal(['list', '--project', projectId], { env, columns: 200 });
    expect(wide.output).toContain('\u001B[36mrunning');
    const lines = stripVTControlCharacters(output).split('\r\n');
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(60);
    expect(lines[1]).toContain('…');
    expect(lines[1]).toMatch(/ ago/);
    const plain = await runOnTerminal(['list', '--project', projectId], { env: { ...env, NO_COLOR: '1' } });
    expect(plain.output).not.toContain('\u001B[');
    const piped = await runInProcess(['list', '--project', projectId], { env });
    expect(piped.stdout).toContain(workflowId);
    const watched = await runOnTerminal(['watch', '--project', projectId], {
      env,
      rows: 8,
      types: [[/1 open job/, '\u0003']],
    });
    expect(watched.output).toContain('bad [2J');
    expect(watched.code).toBe(130);
  },
  MOST_MS,
);
