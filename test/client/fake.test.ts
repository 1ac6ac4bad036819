/** The fake and the real client, told the same, answer and refuse alike. */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest';
import { FakeAgentJobs, type AgentJobsLike } from '../../src/client/fake/fake-agent-jobs.js';
import {
  AgentJobs,
  type JobCanceledError,
  type JobFilter,
  type JobHandle,
  type JobSummary,
  type StartRequest,
} from '../../src/starter.js';
import { until } from '../support/worker-process.js';
import { gathered, QUICK, startJobServer, type JobServer } from './job-server.js';
import { givenUp, told } from './told.js';

let server: JobServer;
beforeAll(async () => {
  server = await startJobServer();
  await server.sandbox.setScript({ activeMs: 3_600_000, messageLagMs: 10 });
});
afterAll(() => server.close());

/** How the story lets the upstream end a job. */
type Finish = (job: JobHandle) => Promise<void>;
type Story = (jobs: AgentJobsLike, request: StartRequest, finish: Finish) => Promise<unknown[]>;

const changed = (request: StartRequest, change: object) => ({ ...request, ...change }) as StartRequest;

const STORIES: Record<string, Story> = {
  'a start, its repetition, and another prompt under the key': async (jobs, request) => {
    const { isNew, workflowId, key, projectId } = await jobs.start(request);
    return [
      { isNew, workflowId, key, projectId },
      (await jobs.start({ ...request, deadline: '2 hours' })).isNew,
      await told(() => jobs.start(changed(request, { prompt: 'Another' }))),
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
      told(() => jobs.start(changed(request, { projectId: '..' }))),
      told(() => jobs.start(changed(request, { prompt: '' }))),
      told(() => jobs.start(changed(request, { key: '' }))),
      told(() => jobs.start(changed(request, { deadline: 'soon' }))),
      told(() => jobs.start(changed(request, { priority: 9 }))),
      told(() => jobs.start(changed(request, { tags: ['a\nb'] }))),
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
    await job.sendFollowUp('Go on', { id: 'c' });
    await job.cancel();
    const canceled = (await job.result().catch((error: unknown) => error)) as JobCanceledError;
    const before = [canceled.code, canceled.prLink, canceled.lastResult?.usedFollowUpIds];
    return [...ended, again.state, last.followUps, last.usedFollowUpIds, ...before];
  },
  'a cancellation': async (jobs, request) => {
    const job = await jobs.start(request);
    await job.sendFollowUp('And a test', { id: 'a' });
    await job.cancel();
    return [await told(() => job.result()), (await job.state()).outcome, (await jobs.start(request)).isNew];
  },
  'calls that are given up, or have no time': async (jobs, request) => {
    const signal = givenUp();
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
  'many starts, with a key that comes twice, and what is no request': async (jobs, request) => {
    const many = (keys: string[]) => keys.map((key) => ({ ...request, key }));
    const wrong = [null, 'text', { ...request, projectId: '..' }, { ...request, key: 7 }] as StartRequest[];
    const another = changed(request, { key: 'many a', prompt: 'Another' });
    const requests = [...many(['many a', 'many b', 'many a']), another, ...wrong];
    const fates = async (...given: Parameters<AgentJobsLike['startMany']>) =>
      (await gathered(jobs.startMany(...given)))
        .toSorted((a, b) => a.index - b.index)
        .map(({ error, ...fate }) => ({ ...fate, error: error?.name }));
    const signal = givenUp();
    async function* broken() {
      yield many(['many c'])[0]!;
      throw Object.assign(new Error('broken'), { name: 'Broken' });
    }
    return [
      await fates(requests, { concurrency: 2 }),
      await fates(requests),
      await told(() => fates(many(['many d']), { signal })),
      await told(() => fates(broken())),
      await told(() => jobs.startMany([], { concurrency: 0 })),
      await told(() => jobs.startMany([], { outageLimitMs: -1 })),
      await told(() =>
        jobs
          .handle({ ...request, key: 'many c' })
          .state()
          .then(({ outcome }) => outcome),
      ),
      await told(() => jobs.handle({ ...request, key: 'many d' }).state()),
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

/** Sends a follow-up whose response is lost. */
type Lose = (job: JobHandle, prompt: string, id: string) => Promise<void>;

/** What happens to jobs, and what lists then tell of them. */
interface ListStory {
  act: (jobs: AgentJobsLike, request: StartRequest, finish: Finish, lose: Lose) => Promise<void>;
  look: (jobs: AgentJobsLike, request: StartRequest) => Promise<unknown>;
}

const shown = ({ runId, jobId, startedAt, endedAt, ...row }: JobSummary) => ({
  ...row,
  ...{ runId: runId !== '', hasJob: jobId !== null, startedAt: startedAt !== '', hasEnded: endedAt !== null },
});
const listed = async (jobs: AgentJobsLike, filter: JobFilter) => (await gathered(jobs.list(filter))).map(shown);
const keysOf = async (jobs: AgentJobsLike, filter: JobFilter) =>
  (await gathered(jobs.list(filter))).map(({ workflowId }) => workflowId);
const HOUR_MS = 3_600_000;

const LIST_STORIES: Record<string, ListStory> = {
  'one job, as it runs, and what finds it': {
    act: async (jobs, request) => {
      const labels = { batch: request.projectId, tags: ['a', 'B', 'a'], metadata: { ticket: '1' } };
      await jobs.start({ ...request, ...labels });
    },
    look: async (jobs, { projectId }) => {
      const filters: JobFilter[] = [
        { batch: projectId },
        { tags: ['a', 'B'] },
        { tags: ['b'] },
        { tags: ['a'], outcome: 'completed' },
        { phase: 'watching', status: 'active', isRunning: true },
        { phase: 'lingering' },
        { waitingFor: 'person' },
        { startedAfter: new Date(Date.now() - HOUR_MS), startedBefore: new Date(Date.now() + HOUR_MS) },
        { startedAfter: new Date(Date.now() + HOUR_MS).toISOString() },
        { endedAfter: new Date(0) },
        { projectId: 'another' },
      ];
      const found = filters.map(async (filter) => (await keysOf(jobs, { projectId, ...filter })).length);
      return [await listed(jobs, { projectId }), await Promise.all(found), await jobs.count({ projectId })];
    },
  },
  'jobs that ended, one that goes on after its end, and an attached one': {
    act: async (jobs, request, finish) => {
      const start = (key: string) => jobs.start(changed(request, { key, prompt: `Do ${key}` }));
      const [ended, again, , cancelled] = [await start('a'), await start('b'), await start('c'), await start('d')];
      for (const job of [ended, again]) {
        await job.sendFollowUp('Go on', { id: 'one' });
        await finish(job);
        await job.result();
      }
      await again.sendFollowUp('Go on', { id: 'two' });
      await cancelled.cancel();
      await told(() => cancelled.result());
      const { jobId } = await ended.state();
      const attached = await jobs.attach({ projectId: request.projectId, jobId: jobId!, ...QUICK });
      await told(() => attached.sendFollowUp('Go on', { id: 'three' }));
    },
    look: async (jobs, { projectId }) => {
      const rows = (await listed(jobs, { projectId })).map(({ title, ...row }) => ({
        ...row,
        // The id of the job is in it.
        title: title?.replace(/job .*/, 'job'),
        workflowId: row.workflowId.replace(/attached\/.*/, 'attached'),
      }));
      const one = { projectId, outcome: 'completed' } as const;
      const paged = new Set<string>();
      for (let cursor: string | null | undefined; cursor !== null;) {
        const page = await jobs.listPage({ projectId }, { pageSize: 2, cursor });
        for (const { workflowId } of page.jobs) paged.add(workflowId);
        cursor = page.nextCursor;
      }
      return [
        rows,
        paged.size,
        (await keysOf(jobs, one)).length,
        (await keysOf(jobs, { projectId, isRunning: true })).length,
        await jobs.count({ projectId }),
        await jobs.count(one),
      ];
    },
  },
  'jobs with a follow-up in doubt, before and after somebody decides': {
    act: async (jobs, request, _finish, lose) => {
      const start = (key: string) => jobs.start(changed(request, { key, prompt: `Do ${key}` }));
      const [one, again, settled] = [await start('a'), await start('b'), await start('c'), await start('d')];
      for (const job of [one, again, settled]) await lose(job, `Go on with ${job.workflowId}`, 'first');
      for (const job of [again, settled]) await job.resolve({ action: 'delivered', by: 'ann' });
      await lose(again, `Once more with ${again.workflowId}`, 'second');
    },
    look: async (jobs, { projectId }) => {
      const items = (await gathered(jobs.needsAttention())).filter((item) => item.projectId === projectId);
      return [
        items.map(({ jobId, url: _url, unknown, decisions, ...item }) => ({
          ...item,
          hasJob: jobId !== null,
          unknown: [unknown?.kind, unknown?.followUpId],
          decisions: decisions.map(({ at: _, ...decision }) => decision),
        })),
        await keysOf(jobs, { projectId, waitingFor: 'person' }),
      ];
    },
  },
  'lists that are asked for wrongly': {
    act: async (jobs, request) => {
      for (const key of ['a', 'b']) await jobs.start({ ...request, key });
    },
    look: async (jobs, { projectId }) => {
      const { nextCursor: cursor } = await jobs.listPage({ projectId }, { pageSize: 1 });
      const signal = givenUp();
      return Promise.all([
        told(() => gathered(jobs.list({ startedAfter: 'yesterday' }))),
        told(() => jobs.count({ endedBefore: 'soon' })),
        told(() => jobs.listPage({ endedAfter: new Date(NaN) })),
        ...[0, 1_001, 1.5].map((pageSize) => told(() => jobs.listPage({}, { pageSize }))),
        told(() => jobs.listPage({ projectId }, { cursor: `${cursor}A` })),
        told(() => jobs.listPage({ projectId }, { cursor, pageSize: 1 }).then(({ jobs: { length } }) => length)),
        told(() => gathered(jobs.list({}, { signal }))),
        told(() => jobs.count({}, { signal })),
        told(() => jobs.listPage({}, { timeoutMs: 0 })),
        ...[{ signal }, { timeoutMs: 0 }].flatMap((limits) => [
          told(() => gathered(jobs.needsAttention(limits))),
          told(() => gathered(jobs.stuck(limits))),
          told(() => gathered(jobs.queues({}, limits))),
        ]),
      ]);
    },
  },
};

/** What both say of the same, once Temporal's lists, which lag behind, show it. */
async function seenBy(fake: AgentJobsLike, real: AgentJobsLike, look: (jobs: AgentJobsLike) => Promise<unknown>) {
  const byFake = await look(fake);
  let byReal = await look(real);
  const giveUpAt = Date.now() + 60_000;
  while (!isDeepStrictEqual(byReal, byFake) && Date.now() < giveUpAt) byReal = await look(real);
  return { byFake, byReal };
}

describe.concurrent('the fake lists what the real client lists', () => {
  test.each(Object.entries(LIST_STORIES))('%s', async (title, { act, look }) => {
    const fake = new FakeAgentJobs();
    const { sandbox, jobs } = server;
    const projectId = `lists-${randomUUID()}`;
    const request = { key: title, projectId, prompt: `Do it: ${title}`, ...QUICK };
    await act(
      fake,
      request,
      async (job) => fake.job(job).finish(),
      async (job, prompt, id) => {
        await job.followUp(prompt, { id });
        fake.job(job).doubt(id);
      },
    );
    await act(
      jobs,
      request,
      async (job) => {
        const { jobId } = await job.state();
        await sandbox.setJob({ id: jobId!, status: 'completed' });
      },
      async (job, prompt, id) => {
        await sandbox.addFault({ kind: 'reset', effect: 'after', promptIncludes: prompt });
        await job.followUp(prompt, { id });
        await until(async () => (await job.state()).phase === 'needsAttention', 'the doubt');
      },
    );
    const { byFake, byReal } = await seenBy(fake, jobs, (either) => look(either, request));
    expect(byFake).toEqual(byReal);
  });

  test('jobs by their keys, where prompts are hidden', async () => {
    const { client, taskQueue } = server;
    const settings = { taskQueue, hidePrompts: true };
    const projectId = `hidden-${randomUUID()}`;
    const request = { projectId, prompt: 'Fix the login', ...QUICK };
    const both = [new FakeAgentJobs(settings), new AgentJobs({ client, ...settings })] as const;
    for (const jobs of both) {
      await jobs.start({ ...request, key: 'one' });
      await gathered(jobs.startMany([{ ...request, key: 'many' }]));
      await jobs.attach({ projectId, jobId: 'job_of another' });
    }
    const { byFake, byReal } = await seenBy(...both, async (jobs) => {
      const titles = (await gathered(jobs.list({ projectId }))).map(({ title }) => title);
      const { taskQueue: queue, hidePrompts } = jobs;
      return { titles: new Set(titles), queue, hidePrompts, queues: await gathered(jobs.queues({ projectId })) };
    });
    expect(byFake).toEqual(byReal);
  });
});

test('the fake has all that the client has but Temporal and its Schedules', () => {
  type Schedules = 'ensureExportSchedule' | 'exportSchedules';
  type Shared = Omit<AgentJobs, 'client' | Schedules>;
  expectTypeOf<FakeAgentJobs>().toExtend<Shared>();
  expectTypeOf<AgentJobsLike>().toExtend<Shared>();
  expectTypeOf<Shared>().toExtend<AgentJobsLike>();
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

test('a follow-up id that is said again with another prompt is refused, after the end too', async () => {
  const jobs = new FakeAgentJobs();
  const job = await jobs.start({ key: 'k', projectId: 'p', prompt: 'x' });
  await job.followUp('one', { id: 'a' });
  await job.followUp('one', { id: 'a' });
  const conflict = { code: 'FOLLOW_UP_CONFLICT', retryable: false, id: 'a' };
  await expect(job.sendFollowUp('two', { id: 'a' })).rejects.toMatchObject(conflict);
  jobs.job(job).finish();
  await expect(job.sendFollowUp('two', { id: 'a' })).rejects.toMatchObject(conflict);
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
