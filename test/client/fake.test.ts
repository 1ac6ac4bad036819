/** The fake and the real client, told the same, answer and refuse alike. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FakeAgentJobs, type AgentJobsLike } from '../../src/client/fake/fake-agent-jobs.js';
import type { JobHandle, StartRequest } from '../../src/starter.js';
import { QUICK, startJobServer, type JobServer } from './job-server.js';

let server: JobServer;
beforeAll(async () => {
  server = await startJobServer();
  await server.sandbox.setScript({ activeMs: 3_600_000, messageLagMs: 10 });
});
afterAll(() => server.close());

/** What a call answers, or the name, code and field of what it throws. */
async function told(call: () => unknown): Promise<unknown> {
  try {
    return (await call()) ?? null;
  } catch (error) {
    const { name, code, field, retryable } = error as Record<string, unknown>;
    return { name, code, retryable, ...(field !== undefined && { field }) };
  }
}

/** How the story lets the upstream end a job. */
type Finish = (job: JobHandle) => Promise<void>;
type Story = (jobs: AgentJobsLike, request: StartRequest, finish: Finish) => Promise<unknown[]>;

const wrong = (request: StartRequest, change: object) => ({ ...request, ...change }) as StartRequest;

const STORIES: Record<string, Story> = {
  'a start, its repetition, and another prompt under the key': async (jobs, request) => {
    const { isNew, workflowId, key, projectId } = await jobs.start(request);
    return [
      { isNew, workflowId, key, projectId },
      (await jobs.start({ ...request, deadline: '2 hours' })).isNew,
      await told(() => jobs.start(wrong(request, { prompt: 'Another' }))),
      await told(() =>
        jobs
          .handle(workflowId)
          .state()
          .then(({ outcome }) => outcome),
      ),
    ];
  },
  'input that is wrong': (jobs, request) =>
    Promise.all([
      told(() => jobs.start(wrong(request, { projectId: '..' }))),
      told(() => jobs.start(wrong(request, { prompt: '' }))),
      told(() => jobs.start(wrong(request, { key: '' }))),
      told(() => jobs.start(wrong(request, { deadline: 'soon' }))),
      told(() => jobs.start(wrong(request, { priority: 9 }))),
      told(() => jobs.start(wrong(request, { tags: ['a\nb'] }))),
      told(() => jobs.attach({ projectId: request.projectId, jobId: '' })),
    ]),
  'what names no job': async (jobs, { projectId }) => {
    const nobody = jobs.handle({ projectId, key: 'nobody' });
    return Promise.all([
      told(() => nobody.state()),
      told(() => nobody.result()),
      told(() => nobody.followUp('Go on')),
      told(() => nobody.sendFollowUp('Go on')),
      told(() => nobody.cancel()),
      told(() => nobody.pollNow()),
      told(() => nobody.resolve({ action: 'abandon' })),
      told(() => jobs.handle('')),
    ]);
  },
  'follow-ups, one of them said twice, and wrong ones': async (jobs, request) => {
    const job = await jobs.start(request);
    const send = (prompt: string, id: string) =>
      told(() => job.sendFollowUp(prompt, { id }).then(({ state }) => state));
    return [
      await send('And a test', 'a'),
      await send('And a test', 'a'),
      await send('', 'b'),
      await send('Go on', ''),
      await told(() => job.followUp('Go on', { priority: 7 as never })),
      (await job.state()).followUps,
      await told(() => job.resolve({ action: 'delivered' })),
      await told(() => job.resolve({ action: 'guess' } as never)),
    ];
  },
  'an end, and what comes after it': async (jobs, request, finish) => {
    const job = await jobs.start(request);
    await job.sendFollowUp('And a test', { id: 'a' });
    await finish(job);
    const { outcome, followUps, usedFollowUpIds } = await job.result();
    const ended = [
      { outcome, followUps, usedFollowUpIds },
      (await job.state()).outcome,
      (await jobs.start(request)).isNew,
      await told(() => job.pollNow()),
      await told(() => job.cancel()),
      await told(() => job.followUp('Go on', { onlyWhileRunning: true })),
    ];
    const again = await job.sendFollowUp('Go on', { id: 'b' });
    await finish(job);
    const last = await job.result();
    return [...ended, again.state, last.followUps, last.usedFollowUpIds];
  },
  'a cancellation': async (jobs, request) => {
    const job = await jobs.start(request);
    await job.sendFollowUp('And a test', { id: 'a' });
    await job.cancel();
    return [await told(() => job.result()), (await job.state()).outcome, (await jobs.start(request)).isNew];
  },
  'calls that are given up, or have no time': async (jobs, request) => {
    const signal = AbortSignal.abort(Object.assign(new Error('enough'), { name: 'Enough' }));
    const job = await jobs.start(request);
    const limits = { signal, timeoutMs: 1_000 };
    return Promise.all([
      told(() => jobs.start(request, limits)),
      told(() => job.followUp('Go on', limits)),
      told(() => job.sendFollowUp('Go on', limits)),
      told(() => job.state(limits)),
      told(() => job.cancel(limits)),
      told(() => job.pollNow(limits)),
      told(() => job.followUp('Go on', { timeoutMs: -1 })),
      told(() => job.state({ timeoutMs: 0 })),
      told(() => job.state().then(({ followUps }) => followUps)),
    ]);
  },
  'a wait that is given up': async (jobs, request) => {
    const job = await jobs.start(request);
    const controller = new AbortController();
    const waiting = told(() => job.result({ signal: controller.signal }));
    controller.abort(Object.assign(new Error('enough'), { name: 'Enough' }));
    return [await waiting, (await job.state()).outcome];
  },
};

describe.concurrent('the fake tells what the real client tells of', () => {
  test.each(Object.entries(STORIES))('%s', async (title, story) => {
    const fake = new FakeAgentJobs();
    const { projectId, sandbox, jobs } = server;
    const request = { key: title, projectId, prompt: `Do it: ${title}`, ...QUICK };
    const byFake = await story(fake, request, async (job) => fake.job(job).finish());
    const byReal = await story(jobs, request, async (job) => {
      const { jobId } = await job.state();
      await sandbox.setJob({ id: jobId!, status: 'completed' });
    });
    expect(byFake).toEqual(byReal);
  });
});

test('a test says what becomes of a fake job, and its watchers see it', async () => {
  const fake = new FakeAgentJobs();
  const job = await fake.start({ key: 'k', projectId: 'p', prompt: 'Do it', tags: ['a'], metadata: { ticket: '1' } });
  const seen: unknown[] = [];
  const watched = (async () => {
    for await (const { phase, job: record, unknown } of job.watch()) seen.push([phase, record?.prLink, unknown?.kind]);
  })();
  await job.followUp('And a test', { id: 'a' });
  const control = fake.job(job);
  await Promise.resolve();
  control.update({ prLink: 'https://git.example/pull/1' });
  await expect.poll(() => seen.length).toBeGreaterThan(1);
  control.doubt('a');
  await expect.poll(() => seen.at(-1)).toEqual(['needsAttention', 'https://git.example/pull/1', 'followUp']);
  await job.resolve({ action: 'delivered', by: 'ann', note: 'seen upstream' });
  control.finish('archived');
  await watched;
  expect(seen.at(-1)).toEqual(['done', 'https://git.example/pull/1', undefined]);
  const { outcome, decisions, followUps, tags, metadata } = await job.result();
  expect({ outcome, followUps, tags, metadata }).toEqual({
    outcome: 'archived',
    followUps: [{ id: 'a', state: 'sent' }],
    tags: ['a'],
    metadata: { ticket: '1' },
  });
  expect(decisions).toMatchObject([{ action: 'delivered', kind: 'followUp', followUpId: 'a', by: 'ann' }]);
  expect(control.followUps).toMatchObject([{ id: 'a', prompt: 'And a test' }]);
  expect(() => control.finish()).toThrow('ended');
});

test('a rejected create frees its key, and a deadline that passes has a result', async () => {
  const fake = new FakeAgentJobs();
  const job = await fake.start({ key: 'k', projectId: 'p', prompt: 'Do it' });
  fake.job(job).rejectCreate({ status: 422, error: 'no such model' });
  await expect(job.result()).rejects.toMatchObject({ name: 'CreateRejectedError', status: 422 });
  expect(await job.state()).toMatchObject({ outcome: 'CreateRejected', jobId: null, job: null });
  await expect(job.followUp('Go on')).rejects.toMatchObject({ name: 'NoJobError' });
  const next = await fake.start({ key: 'k', projectId: 'p', prompt: 'Another' });
  expect(next.isNew).toBe(true);
  fake.job({ projectId: 'p', key: 'k' }).timeOut();
  expect(await next.result()).toMatchObject({ outcome: 'timedOut' });
  expect(fake.jobs).toHaveLength(1);
});
