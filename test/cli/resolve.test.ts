/** Most wait for the list of jobs together; `expect.poll` knows one test at a time. */
import { randomUUID } from 'node:crypto';
import { hostname, userInfo } from 'node:os';
import { describe, expect, test } from 'vitest';
import type { JobHandle } from '../../src/starter.js';
import { QUICK, startJobServer } from '../client/job-server.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import { until } from '../support/worker-process.js';
import { envOf, jsonLines, type CliRun } from './run-cli.js';
import { runInProcess } from './run-in-process.js';
import { useForFile } from '../support/use.js';

// Its list asks every job in doubt: those that other tests left would each take ten seconds.
const server = useForFile(async () => startJobServer(await connectOwnNamespace()));

function cli(args: string[], options: { stdin?: string } = {}): Promise<CliRun> {
  return runInProcess(args, { ...options, env: { ...envOf(server), AGENT_JOBS_WEB_UI_URL: 'http://ui' } });
}

/** A job whose create took effect upstream, but was never answered. */
async function unknownCreate(prompt = `prompt ${randomUUID()}`): Promise<{ job: JobHandle; prompt: string }> {
  await server.sandbox.addFault({ kind: 'reset', effect: 'after', promptIncludes: prompt });
  const job = await server.jobs.start({ projectId: server.projectId, key: randomUUID(), prompt, ...QUICK });
  await until(async () => (await job.state()).phase === 'needsAttention', 'the doubt');
  return { job, prompt };
}

async function jobIdOf(prompt: string): Promise<string> {
  const [created] = await server.sandbox.creates({ promptIncludes: prompt });
  return created!.id;
}

type Lines = Record<string, unknown>[];
let running: Promise<unknown> = Promise.resolve();
let next: Promise<Lines> | undefined;
/** One command for all who wait, which asks every job in doubt. The one that runs began before: it may show less. */
function listed(): Promise<Lines> {
  return (next ??= running.then(() => {
    next = undefined;
    const lines = cli(['attention', '--json']).then(({ stdout }) => jsonLines(stdout));
    running = lines.catch(() => {});
    return lines;
  }));
}

/** Other jobs on the server are none of this test's business. */
async function attentionOf({ workflowId }: JobHandle): Promise<Record<string, unknown>> {
  let line: Record<string, unknown> | undefined;
  const isListed = async () => {
    line = (await listed()).find((item) => item['workflowId'] === workflowId);
    return line !== undefined;
  };
  await until(isListed, `${workflowId} in the list`);
  return line!;
}

test('a script may not say retry before a check upstream can be trusted, but with --yes', async () => {
  const other = await unknownCreate();
  const { job, prompt } = await unknownCreate(); // For half a minute no check counts.
  const { lookAfter, since } = (await job.state()).unknown!;
  for (const more of [[], ['--json']]) {
    const early = await cli(['resolve', job.workflowId, 'retry', ...more]);
    expect(early.stderr).toContain(`until ${lookAfter} the write may still be on its way`);
    expect(early.code).toBe(2);
  }
  const lines = [
    { workflowId: job.workflowId, since, action: 'retry' },
    { workflowId: other.job.workflowId, since: (await other.job.state()).unknown!.since, action: 'abandon' },
  ];
  const stdin = lines.map((line) => JSON.stringify(line)).join('\n');
  const many = await cli(['resolve', '--from', '-', '--json'], { stdin });
  expect(jsonLines(many.stdout)).toMatchObject([
    { isResolved: false, problem: expect.stringContaining(`until ${lookAfter}`) as string },
    { isResolved: true, problem: null },
  ]);
  expect(many.code).toBe(1);
  expect(await job.state()).toMatchObject({ phase: 'needsAttention', decisions: [] });
  expect(await server.sandbox.creates({ promptIncludes: prompt })).toHaveLength(1);
  const agreed = await cli(['resolve', job.workflowId, 'retry', '--yes']);
  expect(agreed.stderr).toContain('warning');
  expect(agreed.code).toBe(0);
  await until(async () => (await server.sandbox.creates({ promptIncludes: prompt })).length === 2, 'another create');
});

describe.concurrent('a write in doubt', () => {
  test('an unknown create is listed with its reason and adopted by the job that it made', async () => {
    const { job, prompt } = await unknownCreate();
    const line = await attentionOf(job);
    const unknown = (await job.state()).unknown!;
    const { reason, since } = unknown;
    expect(line).toMatchObject({ projectId: server.projectId, jobId: null, unknown: { kind: 'create' } });
    expect(line['unknown']).toEqual(unknown);
    expect(reason).toBeTruthy();
    const adopt = `resolve ${job.workflowId} adopt --job-id ID_OF_THE_JOB --since ${since}`;
    expect((await cli(['attention'])).stdout).toContain(adopt);
    expect((await cli(['state', job.workflowId])).stdout).toContain(adopt);
    const jobId = await jobIdOf(prompt);
    const real = await cli(['resolve', job.workflowId, 'adopt', '--job-id', jobId, '--since', since]);
    expect(real.stdout).toContain(since);
    expect(real.stdout).toContain(`resolved with adopt by ${userInfo().username}@${hostname()}`);
    expect(real.code).toBe(0);
    expect(await job.result()).toMatchObject({ outcome: 'completed', jobId });
    const again = await cli(['resolve', job.workflowId, 'adopt', '--job-id', jobId]);
    expect(again.stderr).toContain('no write is in doubt any more');
    expect(again.code).toBe(1);
  });

  test('an action that does not fit, or means another write, resolves nothing', async () => {
    const { job } = await unknownCreate();
    const wrongKind = await cli(['resolve', job.workflowId, 'delivered']);
    expect(wrongKind.stderr).toContain('delivered');
    const wrongTime = await cli(['resolve', job.workflowId, 'retry', '--since', '2020-01-01T00:00:00.000Z']);
    expect(wrongTime.stderr).toContain('the decision names another write');
    expect([wrongKind.code, wrongTime.code]).toEqual([1, 1]);
    expect((await job.state()).phase).toBe('needsAttention');
    expect((await cli(['resolve', job.workflowId, 'abandon'])).code).toBe(0);
    expect((await cli(['wait', job.workflowId])).code).toBe(6);
  });

  test('two lines of a file do not adopt the same job', async () => {
    const [first, second] = [await unknownCreate(), await unknownCreate()];
    const jobId = await jobIdOf(first.prompt);
    const lines = [first, second].map(async ({ job }) => ({ ...(await attentionOf(job)), action: 'adopt', jobId }));
    const stdin = (await Promise.all(lines)).map((line) => JSON.stringify(line)).join('\n');
    const { stdout } = await cli(['resolve', '--from', '-', '--json'], { stdin });
    expect(jsonLines(stdout)).toMatchObject([
      { problem: null, isResolved: true },
      { problem: `the workflow ${first.job.workflowId} of an earlier line has the job ${jobId}` },
    ]);
    expect((await cli(['resolve', second.job.workflowId, 'adopt', '--job-id', jobId, '--force'])).code).toBe(0);
  });

  test('a file resolves many, each line answered on its own', async () => {
    const adopted = await unknownCreate();
    const abandoned = await unknownCreate();
    const lines = [
      { ...(await attentionOf(adopted.job)), action: 'adopt', jobId: await jobIdOf(adopted.prompt) },
      { ...(await attentionOf(abandoned.job)), action: 'abandon' },
      { ...(await attentionOf(abandoned.job)), action: null },
      { workflowId: 'nowhere', action: 'retry', since: '2020-01-01T00:00:00.000Z' },
    ].map((line) => JSON.stringify(line));
    const stdin = [...lines, 'no json', ''].join('\n');
    const { code, stdout } = await cli(['resolve', '--from', '-', '--json'], { stdin });
    const reported = jsonLines(stdout);
    expect(reported[2]).toMatchObject({ line: 3, workflowId: abandoned.job.workflowId });
    expect(reported.map(({ isResolved, problem }) => [isResolved, problem])).toEqual([
      [true, null],
      [true, null],
      [false, 'has no action'],
      [false, expect.stringContaining('no such workflow')],
      [false, expect.stringContaining('it is not JSON')],
    ]);
    expect(code).toBe(1);
    expect((await adopted.job.result()).outcome).toBe('completed');
    expect((await abandoned.job.result()).outcome).toBe('abandoned');
  });

  test('an unknown follow-up is named by its id', async () => {
    await server.sandbox.addScript({ promptIncludes: 'long', script: { activeMs: 60_000 } });
    const job = await server.jobs.start({ projectId: server.projectId, key: randomUUID(), prompt: 'long', ...QUICK });
    await server.sandbox.addFault({ kind: 'reset', effect: 'after', promptIncludes: 'unheard' });
    expect(await job.sendFollowUp('unheard', { id: 'f1' })).toMatchObject({ state: 'unknown' });
    const line = await attentionOf(job);
    const { since } = (await job.state()).unknown!;
    expect(line).toMatchObject({ unknown: { kind: 'followUp', followUpId: 'f1', since } });
    const shown = await cli(['state', job.workflowId]);
    expect(shown.stdout).toContain(`resolve ${job.workflowId} delivered --since ${since}`);
    const wrong = await cli(['resolve', job.workflowId, 'delivered', '--follow-up-id', 'f2']);
    expect(wrong.code).toBe(1);
    const stdin = JSON.stringify({ ...line, action: 'delivered' });
    expect((await cli(['resolve', '--from', '-'], { stdin })).code).toBe(0);
    expect((await job.state()).followUps).toMatchObject([{ id: 'f1', state: 'sent' }]);
    await job.cancel();
  });

  test('a decision is shown before the next one, with its author', async () => {
    const { job, prompt } = await unknownCreate();
    await server.sandbox.addFault({ kind: 'reset', effect: 'after', promptIncludes: prompt });
    const resolve = (...args: string[]) => cli(['resolve', job.workflowId, ...args]);
    const retried = await resolve('retry', '--yes', '--by', 'ann b', '--note', 'not there\nat nine');
    expect(retried.stdout).toContain('resolved with retry by ann b');
    await until(async () => {
      const { unknown, decisions } = await job.state();
      return unknown !== null && decisions.length === 1;
    }, 'the second doubt');
    const first = { action: 'retry', kind: 'create', by: 'ann b', note: 'not there\nat nine' };
    const line = await attentionOf(job);
    expect(line['decisions']).toMatchObject([first]);
    const told = /Decided last +retry for the create, .* UTC by ann b: not there at nine/;
    for (const command of [['attention'], ['state', job.workflowId], ['resolve', job.workflowId, 'retry']]) {
      expect((await cli(command)).stdout).toMatch(told);
    }
    // A line may name its own author.
    const lines = [
      { ...line, action: 'adopt', jobId: 'job_nope' },
      { ...line, action: 'abandon', by: 'bob' },
    ];
    const many = ['resolve', '--from', '-', '--by', 'carol', '--note', 'all of them', '--json'];
    const { stdout } = await cli(many, { stdin: lines.map((each) => JSON.stringify(each)).join('\n') });
    expect(jsonLines(stdout)).toMatchObject([
      { by: 'carol', isResolved: false },
      { by: 'bob', isResolved: true },
    ]);
    const { decisions } = await job.result();
    expect(decisions).toMatchObject([first, { action: 'abandon', by: 'bob', note: 'all of them' }]);
    const late = await resolve('retry');
    expect(late.stderr).toMatch(
      /no write is in doubt any more: .* \(decided last: abandon for the create, .* by bob: all/,
    );
    expect(late.code).toBe(1);
  });

  test('attention names the job by title and link, without the title where prompts are hidden', async () => {
    const first = `Mend the footer ${randomUUID()}`;
    const { job } = await unknownCreate(`${first}\nand \u001B[2J nothing else`);
    const title = `${server.projectId}: ${first}`;
    // The page with the details; without the run it would be the timeline.
    const url = expect.stringMatching(`^http://ui/namespaces/.+/${job.runId}/user-metadata$`) as string;
    expect(await attentionOf(job)).toMatchObject({ title, url });
    const told = (await cli(['attention'])).stdout;
    expect(told).toMatch(new RegExp(`Title +${title}\\nWeb UI +http.+\\nProject +${server.projectId}\\n`));
    const hidden = await runInProcess(['attention'], { env: { ...envOf(server), AGENT_JOBS_HIDE_PROMPTS: 'true' } });
    expect(hidden.stdout).toContain(job.workflowId);
    expect(hidden.stdout).not.toContain('Mend the footer');
    await job.resolve({ action: 'abandon' });
  });
});

test('a project whose key is refused is listed once, however many of its jobs wait', async () => {
  const projectId = `refused-${randomUUID()}`;
  await server.sandbox.addFault({ kind: 'status', status: 401, operation: 'create', count: 1_000 });
  const start = (key: string) => server.jobs.start({ projectId, key, prompt: 'p', ...QUICK });
  const jobs = await Promise.all(['one', 'two'].map(start));
  const line = async () =>
    (await listed()).find((one) => (one['refusedKey'] as { projectId?: string })?.projectId === projectId);
  await until(async () => (await line()) !== undefined && JSON.stringify(await line()).includes('2'), 'two that wait');
  expect(await line()).toEqual({ refusedKey: { projectId, waitingJobs: 2 } });
  for (const job of jobs) await job.cancel();
});
