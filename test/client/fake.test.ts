/** The fake checks and fails as the real client does, and ends its jobs as a test says. */
import { beforeAll, expect, test } from 'vitest';
import { promptHash } from '../../src/agent-job/input.js';
import { type AgentJobsLike, FakeAgentJobs } from '../../src/client/fake-agent-jobs.js';
import { CreateRejectedError } from '../../src/client/errors.js';
import type { StartRequest } from '../../src/starter.js';
import { QUICK, startJobServer } from './job-server.js';
import { useForFile } from '../support/use.js';

const server = useForFile(startJobServer);
beforeAll(async () => {
  await server.sandbox.setScript({ activeMs: 3_600_000, messageLagMs: 10 });
});

const changed = (request: StartRequest, change: object) => ({ ...request, ...change }) as StartRequest;

/** What a call answers, or what it throws. */
async function told(call: () => unknown): Promise<unknown> {
  try {
    return (await call()) ?? null;
  } catch (error) {
    const { name, code, field, retryable } = error as Record<string, unknown>;
    return { name, code, retryable, ...(field !== undefined && { field }) };
  }
}

type Story = (jobs: AgentJobsLike, request: StartRequest) => Promise<unknown[]>;

const STORIES: Record<string, Story> = {
  'a start, its repetition, and another prompt under the key': async (jobs, request) => {
    const { isNew, workflowId, key, projectId } = await jobs.start(request);
    const again = await jobs.start({ ...request, deadline: '2 hours' });
    return [
      { isNew, workflowId, key, projectId },
      again.isNew,
      await told(() => jobs.start(changed(request, { prompt: 'Another' }))),
      (await jobs.handle(workflowId).state()).outcome,
    ];
  },
  'input that is wrong': (jobs, request) =>
    Promise.all([
      ...[{ projectId: '..' }, { prompt: '' }, { key: '' }, { deadline: 'soon' }, { priority: 9 }, { tags: ['a\nb'] }]
        .map((change) => changed(request, change))
        .map((wrong) => told(() => jobs.start(wrong))),
      told(() => jobs.attach({ projectId: request.projectId, jobId: '' })),
      told(() => jobs.handle('')),
    ]),
  'what names no job': async (jobs, { projectId }) => {
    const none = jobs.handle({ projectId, key: 'none' });
    const calls = [
      ...[() => none.state(), () => none.result(), () => none.followUp('Go on'), () => none.sendFollowUp('Go on')],
      ...[() => none.cancel(), () => none.pollNow(), () => none.resolve({ action: 'abandon' })],
    ];
    return Promise.all(calls.map((call) => told(call)));
  },
  'follow-ups that are queued: one said twice, another under its id, and one of a job that takes no more': async (
    jobs,
    request,
  ) => {
    const job = await jobs.start(request);
    const queue = (prompt: string) => told(() => job.followUp(prompt, { id: 'a' }));
    const queued = [await queue('And a test'), await queue('And a test'), await queue('Another')];
    const usedFollowUpIds = Array.from({ length: 1_000 }, (_, i) => `f${i}`);
    const full = await jobs.attach({ projectId: request.projectId, jobId: request.key, usedFollowUpIds });
    return [...queued, await told(() => full.followUp('One more', { id: 'b' }))];
  },
  'a follow-up of an earlier run, said again and with another prompt': async (jobs, { projectId, key }) => {
    const used = { usedFollowUpIds: ['a'], promptHashes: { a: promptHash('And a test') } };
    const job = await jobs.attach({ projectId, jobId: key, ...used });
    const send = (prompt: string) => told(() => job.sendFollowUp(prompt, { id: 'a' }).then((one) => one.state));
    return [await send('And a test'), await send('Another'), (await job.state()).promptHashes];
  },
  'follow-ups, one of them said twice, and wrong ones, then a cancellation': async (jobs, request) => {
    const job = await jobs.start(request);
    const send = (prompt: string, id: string) => told(() => job.sendFollowUp(prompt, { id }).then((one) => one.state));
    const sent = [await send('And a test', 'a'), await send('And a test', 'a'), await send('Another', 'a')];
    await job.cancel();
    return [
      ...[sent, await send('', 'b'), await told(() => job.result()), (await job.state()).outcome],
      (await jobs.start(request)).isNew,
      ...[await told(() => job.pollNow()), await told(() => job.followUp('Go on', { onlyWhileRunning: true }))],
    ];
  },
  'a wait that is given up': async (jobs, request) => {
    const job = await jobs.start(request);
    const controller = new AbortController();
    const waiting = told(() => job.result({ signal: controller.signal }));
    controller.abort(Object.assign(new Error('enough'), { name: 'Enough' }));
    return [await waiting, (await job.state()).outcome];
  },
};

test.concurrent.each(Object.entries(STORIES))('as the real client: %s', async (title, story) => {
  const { projectId, jobs } = server;
  const request = { key: title, projectId, prompt: `Do it: ${title}`, ...QUICK };
  expect(await story(new FakeAgentJobs(), request)).toEqual(await story(jobs, request));
});

test('the next call alone fails as a test says', async () => {
  const fake = new FakeAgentJobs();
  const job = await fake.start({ projectId: 'p', key: 'k', prompt: 'Fix it' });
  fake.failNext(new Error('Temporal is down'));
  await expect(job.followUp('And a test')).rejects.toThrow('Temporal is down');
  await job.followUp('And a test');
  expect(fake.job(job).followUps).toHaveLength(1);
});

test('a test says what becomes of a fake job, and its watchers see it', async () => {
  const fake = new FakeAgentJobs();
  const job = await fake.start({ key: 'k', projectId: 'p', prompt: 'Do it', tags: ['a'], metadata: { ticket: '1' } });
  const control = fake.job(job);
  const seen: unknown[] = [];
  const watched = (async () => {
    for await (const { phase, job: record, unknown } of job.watch()) seen.push([phase, record?.prLink, unknown?.kind]);
  })();
  await job.followUp('And a test', { id: 'a' });
  await expect.poll(() => seen.length).toBeGreaterThan(0);
  const since = new Date().toISOString();
  control.set({ phase: 'needsAttention', unknown: { kind: 'followUp', reason: 'lost', since, lookAfter: since } });
  await expect.poll(() => seen.at(-1)).toEqual(['needsAttention', null, 'followUp']);
  await job.resolve({ action: 'delivered', by: 'ann' });
  control.finish('archived', { prLink: 'https://git.example/pull/1' });
  await watched;
  expect(seen.at(-1)).toEqual(['done', 'https://git.example/pull/1', undefined]);
  const result = await job.result();
  expect(result).toMatchObject({ outcome: 'archived', followUps: [{ id: 'a', state: 'sent' }], tags: ['a'] });
  expect(result).not.toHaveProperty('phase');
  expect(control.followUps).toEqual([{ id: 'a', prompt: 'And a test' }]);
  expect(control.decisions).toMatchObject([{ action: 'delivered', by: 'ann' }]);
  // A follow-up goes on with the job.
  expect(await job.sendFollowUp('And docs', { id: 'b' })).toMatchObject({ id: 'b', state: 'sent' });
  expect(await job.state()).toMatchObject({ phase: 'watching', outcome: null, usedFollowUpIds: ['a', 'b'] });
});

test('a rejected create frees its key', async () => {
  const fake = new FakeAgentJobs();
  const job = await fake.start({ key: 'k', projectId: 'p', prompt: 'Do it' });
  fake.job(job).fail(new CreateRejectedError(job.workflowId, { status: 422, error: 'no such model' }));
  await expect(job.result()).rejects.toMatchObject({ name: 'CreateRejectedError', status: 422 });
  expect((await job.state()).outcome).toBe('CreateRejected');
  const next = await fake.start({ key: 'k', projectId: 'p', prompt: 'Another' });
  expect([next.isNew, fake.jobs.length]).toEqual([true, 1]);
});
