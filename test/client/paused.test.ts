/** A workflow that a person has paused is open: it is listed, counted and read as such, and goes on afterwards. */
import { randomUUID } from 'node:crypto';
import { beforeEach, expect, test } from 'vitest';
import { AgentJobs, JobPausedError, type JobHandle } from '../../src/starter.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import { useDevServer } from '../support/job-tests.js';
import { inDoubt } from '../support/outcomes.js';
import { pauseWorkflow } from '../support/paused.js';
import { gathered } from './job-server.js';

const WORDS =
  /paused since 20\S+ by ann@ops \(the upstream is migrated\); with write access .* workflow unpause --workflow-id '/;
const paused = expect.objectContaining({ code: 'JOB_PAUSED', message: expect.stringMatching(WORDS) as string });

const { server, upstream, bench } = useDevServer({}, connectOwnNamespace);
const projectId = `p-${randomUUID()}`;
let jobs: AgentJobs;
beforeEach(() => void (jobs = new AgentJobs({ client: server.client, taskQueue: bench.taskQueue })));

/** A job whose create is in doubt, and is listed as such. */
async function startInDoubt(): Promise<JobHandle> {
  upstream.createFaults.push(inDoubt('the connection was reset'));
  const job = await jobs.start({ key: randomUUID(), projectId, prompt: 'do it', settle: 0 });
  await expect.poll(() => gathered(jobs.list({ projectId, phase: 'needsAttention' }))).toHaveLength(1);
  return job;
}

/** Paused, and listed as such. */
async function pause(job: JobHandle): Promise<() => Promise<void>> {
  const unpause = await pauseWorkflow(server.client, job.workflowId);
  const listed = async () => (await gathered(jobs.list({ projectId }))).map(({ workflowStatus }) => workflowStatus);
  await expect.poll(listed).toEqual(['PAUSED']);
  return unpause;
}

test('a paused job is listed as open, says who may let it go on, and goes on with what came meanwhile', async () => {
  const job = await startInDoubt();
  const unpause = await pause(job);
  expect(await gathered(jobs.list({ projectId, isRunning: true }))).toMatchObject([
    { workflowId: job.workflowId, workflowStatus: 'PAUSED', outcome: null, endedAt: null, waitingFor: 'person' },
  ]);
  expect(await gathered(jobs.needsAttention())).toEqual([
    expect.objectContaining({ workflowId: job.workflowId, problem: expect.stringMatching(WORDS) as string }),
  ]);
  expect(await gathered(jobs.stuck())).toEqual([
    {
      workflowId: job.workflowId,
      workflowType: 'agentJob',
      projectId,
      problems: [],
      pinnedTo: null,
      paused: expect.stringMatching(/^paused since 20\S+ by ann@ops \(the upstream is migrated\)$/) as string,
    },
  ]);
  await expect(job.state()).rejects.toThrow(JobPausedError);
  await expect(job.state()).rejects.toEqual(paused);
  await expect(job.resolve({ action: 'retry' })).rejects.toEqual(paused);
  await expect(job.sendFollowUp('more', { id: 'm' })).rejects.toEqual(paused);
  expect(await job.followUp('go on', { id: 'f' })).toEqual({ id: 'f', checked: false });
  const watched = job.watch()[Symbol.asyncIterator]();
  const first = watched.next();
  await unpause();
  expect((await first).value).toMatchObject({ phase: 'needsAttention', followUps: [{ id: 'f', state: 'queued' }] });
  await job.resolve({ action: 'retry' });
  expect(await job.result()).toMatchObject({ outcome: 'completed', followUps: [{ id: 'f', state: 'sent' }] });
  expect([upstream.created.length, upstream.messages]).toEqual([2, ['go on']]);
  expect(await gathered(jobs.stuck())).toEqual([]);
});
