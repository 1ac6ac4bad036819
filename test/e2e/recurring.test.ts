/** docs/recipes.md: its commands as they are written, and what it says of the jobs that a Schedule starts. */
import { randomUUID } from 'node:crypto';
import type { ScheduleHandle, ScheduleSpec } from '@temporalio/client';
import { expect, test } from 'vitest';
import { inputHash } from '../../src/agent-job/input.js';
import { keyOf } from '../../src/agent-job/start-options.js';
import { agentJobOf } from '../../src/contract.js';
import { type AgentJobSchedule, agentJobSchedule, AgentJobs } from '../../src/starter.js';
import { gathered, QUICK } from '../client/job-server.js';
import { startHttp } from '../http/http-server.js';
import { Runbook } from '../support/runbook.js';
import { useSystem } from './system.js';

const PATIENCE = { timeout: 120_000, interval: 1_000 };
const PR = /^http/;
const SPEC: ScheduleSpec = { intervals: [{ every: '30 minutes' }] };
const system = useSystem({ script: { activeMs: 1_000 } });
const jobsOf = () => new AgentJobs({ client: system.server.client, taskQueue: system.server.taskQueue });

/** Creates a paused Schedule, which starts jobs when it is triggered. */
function create(job: Pick<AgentJobSchedule, 'projectId' | 'name'> & Partial<AgentJobSchedule>) {
  const { client, taskQueue } = system.server;
  const options = agentJobSchedule({ prompt: job.name, ...QUICK, spec: SPEC, taskQueue, ...job });
  return client.schedule.create({ ...options, state: { paused: true } });
}

/** All runs that a Schedule has started. */
async function runsOf({ scheduleId }: ScheduleHandle) {
  return gathered(system.server.client.workflow.list({ query: `TemporalScheduledById = '${scheduleId}'` }));
}

const createsOf = (projectId: string) => system.sandbox.creates({ projectId });

test('a Schedule that Temporal’s own tool makes starts jobs like any other', async () => {
  const { client } = system.server;
  const jobs = jobsOf();
  const runbook = await Runbook.open('docs/recipes.md', system.clientEnv());
  await system.haveWorker();
  await runbook.run('temporal schedule create');
  expect(await runbook.run('temporal schedule trigger')).toMatch(/OverlapPolicy +Skip\n[\s\S]*Paused +false\n/);
  const jobId = async () => /agent-job\/acme\/nightly-review-\S+Z/.exec(await runbook.run('workflow list'))?.[0];
  await expect.poll(jobId, PATIENCE).toBeDefined();
  const workflowId = (await jobId())!;
  expect(await jobs.handle(workflowId).result()).toMatchObject({ outcome: 'completed', projectId: 'acme' });
  // Other tests have jobs of this project on the same server.
  const listed = async () =>
    (await jobs.listPage({ projectId: 'acme' })).jobs.filter((job) => job.workflowId === workflowId);
  await expect.poll(listed, PATIENCE).toMatchObject([{ workflowId, outcome: 'completed' }]);
  expect(await createsOf('acme')).toHaveLength(1);
  expect(runbook.left.filter((line) => line.startsWith('temporal schedule'))).toEqual([]);
  await client.schedule.getHandle('nightly-review').delete();
});

test('a stranger’s Schedule and our own create one job for each of their runs', async () => {
  const { client, taskQueue } = system.server;
  const projectId = `own ${randomUUID()}`;
  await system.haveWorker();
  const spec: ScheduleSpec = { intervals: [{ every: '3 seconds' }] };
  const ours = agentJobSchedule({ projectId, name: 'a/ours', prompt: 'ours', ...QUICK, spec, taskQueue });
  // Nothing but an input, as any Temporal client sends it.
  const workflowId = ours.action.workflowId!.replace('ours', 'theirs');
  const theirs = {
    ...({ type: 'startWorkflow', workflowType: 'agentJob', workflowId, taskQueue } as const),
    args: [{ projectId, prompt: 'theirs', ...QUICK }],
  };
  const schedules = await Promise.all([
    client.schedule.create(ours),
    client.schedule.create({ scheduleId: workflowId, spec, policies: { overlap: 'BUFFER_ONE' }, action: theirs }),
  ]);
  const runs = async () => (await Promise.all(schedules.map(runsOf))).flat();
  const ended = async () => Math.min(...(await Promise.all(schedules.map(runsOf))).map(({ length }) => length));
  await expect.poll(ended, PATIENCE).toBeGreaterThanOrEqual(4);
  for (const schedule of schedules) await schedule.pause();
  await expect.poll(async () => (await runs()).every(({ status }) => status.name === 'COMPLETED'), PATIENCE).toBe(true);
  const all = await runs();
  expect(new Set(all.map((run) => run.workflowId)).size).toBe(all.length);
  expect(await createsOf(projectId)).toHaveLength(all.length);
  for (const { workflowId: id, memo, typedSearchAttributes } of all) {
    const prompt = id.includes('ours') ? 'ours' : 'theirs';
    expect(memo).toMatchObject({ title: `${projectId}: ${prompt}`, inputHash: inputHash({ projectId, prompt }) });
    expect(typedSearchAttributes.get(keyOf('prLink'))).toMatch(PR);
    const shown = typedSearchAttributes.getAll().map(({ key }) => key.name.replace('AgentJob', ''));
    expect(shown).toEqual(expect.arrayContaining(['Project', 'Phase', 'Status', 'Outcome', 'Id']));
    expect(agentJobOf(id)).toMatchObject({ projectId, key: expect.stringMatching(`^a/${prompt}-.*:.*Z$`) });
  }
  await expectByKey(projectId, agentJobOf(all[0]!.workflowId)!.key!);
  for (const schedule of schedules) await schedule.delete();
});

/** The job of the key is found by HTTP, however its colons are spelt in the path, and joined by a start. */
async function expectByKey(projectId: string, key: string): Promise<void> {
  const { bench, jobs } = { bench: await startHttp(jobsOf(), projectId), jobs: jobsOf() };
  const path = `/v1/projects/${encodeURIComponent(projectId)}/jobs`;
  const encoded = encodeURIComponent(key);
  for (const part of [encoded, encoded.replaceAll('%3A', ':')]) {
    expect((await bench.send(`${path}/${part}`)).body).toMatchObject({ key, result: { outcome: 'completed' } });
  }
  const { body } = await bench.send(path);
  expect(body.jobs.map((job: { key: string }) => job.key)).toContain(key);
  const prompt = key.includes('ours') ? 'ours' : 'theirs';
  expect((await jobs.start({ projectId, key, prompt })).isNew).toBe(false);
  await bench.close();
}

/** Temporal makes up for one time, and ignores it if a run of that time is open. */
async function makeUp(schedule: ScheduleHandle): Promise<void> {
  const end = new Date(Date.UTC(2026, 2, 10, 4, 30));
  const start = new Date(end.getTime() - 1_000);
  for (const _ of ['once', 'again']) await schedule.backfill({ start, end, overlap: 'ALLOW_ALL' });
}

test('a time whose job has ended asks before it creates another; one whose create was rejected does not', async () => {
  const projectId = `again-${randomUUID()}`;
  await system.haveWorker();
  await system.sandbox.addFault({
    kind: 'status',
    status: 400,
    operation: 'create',
    projectId,
    promptIncludes: 'no',
  });
  const [made, rejected] = [await create({ projectId, name: 'made' }), await create({ projectId, name: 'no' })];
  const statuses = async (schedule: ScheduleHandle) =>
    (await runsOf(schedule)).map(({ status }) => status.name).toSorted();
  for (const schedule of [made, rejected]) await makeUp(schedule);
  await expect.poll(() => statuses(made), PATIENCE).toEqual(['COMPLETED']);
  await expect.poll(() => statuses(rejected), PATIENCE).toEqual(['FAILED']);
  for (const schedule of [made, rejected]) await makeUp(schedule);
  await expect.poll(() => statuses(rejected), PATIENCE).toEqual(['COMPLETED', 'FAILED']);
  const again = jobsOf().handle({ projectId, key: 'made-2026-03-10T04:30:00Z' });
  const asked = { kind: 'create', reason: expect.stringContaining('may have had a run before') };
  await expect.poll(async () => (await again.state()).unknown, PATIENCE).toMatchObject(asked);
  expect((await createsOf(projectId)).map(({ prompt }) => prompt)).toEqual(['made', 'no']);
  await again.resolve({ action: 'retry' });
  expect(await again.result()).toMatchObject({ outcome: 'completed', decisions: [{ action: 'retry' }] });
  expect(await createsOf(projectId)).toHaveLength(3);
  for (const schedule of [made, rejected]) await schedule.delete();
});

test('a job that waits for a person holds the next time up; one that is followed up does not', async () => {
  const projectId = `overlap-${randomUUID()}`;
  const { sandbox } = system;
  await system.haveWorker();
  await sandbox.addFault({ kind: 'status', status: 500, effect: 'before', operation: 'create', projectId });
  const followUp = [{ status: 'active' }, { status: 'completed', afterMs: 3_600_000 }];
  await sandbox.addScript({ promptIncludes: projectId, script: { activeMs: 500, followUp } });
  const schedule = await create({ projectId, name: 'skips', prompt: projectId, settle: '5 seconds' });
  const taken = async () => {
    const { numActionsTaken, numActionsSkippedOverlap } = (await schedule.describe()).info;
    return [numActionsTaken, numActionsSkippedOverlap];
  };
  await schedule.trigger('SKIP');
  await expect.poll(async () => (await runsOf(schedule)).length, PATIENCE).toBe(1);
  const [first] = await runsOf(schedule);
  const job = jobsOf().handle(first!.workflowId);
  await expect.poll(async () => (await job.state()).phase, PATIENCE).toBe('needsAttention');
  await schedule.trigger('SKIP');
  await expect.poll(taken, PATIENCE).toEqual([1, 1]);
  await job.resolve({ action: 'retry' });
  expect(await job.result()).toMatchObject({ outcome: 'completed' });
  expect(await job.sendFollowUp('And the tests')).toMatchObject({ state: 'sent' });
  await expect.poll(async () => (await schedule.describe()).info.runningActions, PATIENCE).toEqual([]);
  await schedule.trigger('SKIP');
  await expect.poll(taken, PATIENCE).toEqual([2, 1]);
  expect((await job.state()).phase).toBe('watching');
  await job.cancel();
  await schedule.delete();
});

test.each<[string, object]>([
  ['schedule', []],
  ['projectId', { projectId: '..' }],
  ['name', { name: '' }],
  ['name', { name: 'n'.repeat(214) }],
  ['prompt', { prompt: null }],
  ['spec', { spec: '30 4 * * *' }],
  ['overlap', { overlap: 'TERMINATE_OTHER' }],
  ['jobId', { jobId: 'job-1' }],
  ['key', { key: 'k' }],
  ['polling.mni', { polling: { mni: 1 } }],
  ['deadline', { deadline: 'soon' }],
])('an invalid option is named: %s', (field, wrong) => {
  const right = { projectId: 'p', name: 'n'.repeat(213), prompt: 'x', spec: {} };
  expect(agentJobSchedule(right).scheduleId).toHaveLength(225);
  const given = (Array.isArray(wrong) ? wrong : { ...right, ...wrong }) as AgentJobSchedule;
  expect(() => agentJobSchedule(given)).toThrow(expect.objectContaining({ name: 'InvalidInputError', field }));
});
