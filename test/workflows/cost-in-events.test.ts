import { expect, test } from 'vitest';
import { followUpSignal, jobStateQuery } from '../../src/contract.js';
import { agentJobStartOptions } from '../../src/agent-job/start-options.js';
import { connectDevServer } from '../support/dev-server.js';
import { startJobBench, type JobBench, type JobBenchOptions } from '../support/job-bench.js';
import { ScriptedUpstream } from '../support/scripted-upstream.js';
import { useForFile } from '../support/use.js';

const server = useForFile(connectDevServer);
let bench: JobBench;
let upstream: ScriptedUpstream;

async function withBench(work: () => Promise<void>, options: JobBenchOptions = {}) {
  upstream = new ScriptedUpstream();
  bench = await startJobBench(server, upstream, options);
  try {
    await work();
  } finally {
    await bench.stop();
  }
}

const events = async (workflowId: string) =>
  (await server.client.workflow.getHandle(workflowId).fetchHistory()).events!.map((e) => e.eventType);

test('a job of one poll ends with its pull request within 22 history events', () =>
  withBench(async () => {
    const job = { projectId: 'p1', prompt: 'Fix it' };
    const { memo } = agentJobStartOptions(job, { key: 'k' });
    const handle = await bench.start(job, { memo });
    const result = await handle.result();
    expect(result).toMatchObject({ outcome: 'completed', projectId: 'p1', jobId: 'job-1', polls: 1, followUps: [] });
    expect(result.job?.prLink).toBe('https://github.example/a/b/pull/1');
    expect(upstream.created).toEqual(['Fix it']);
    expect((await events(handle.workflowId)).length).toBeLessThanOrEqual(22);
    expect((await handle.query(jobStateQuery)).phase).toBe('done');
  }));

test('a follow-up in the middle of a wait costs at most 18 further events', () =>
  withBench(async () => {
    upstream.show = () => (upstream.messages.length > 0 ? { status: 'completed' } : { status: 'active' });
    const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', settle: 0 });
    // The wait until the second attempt.
    await expect.poll(async () => (await handle.describe()).raw.pendingActivities?.[0]?.attempt).toBeGreaterThan(1);
    await handle.signal(followUpSignal, { prompt: 'And a test', id: 'one' });
    const result = await handle.result();
    expect(result).toMatchObject({
      outcome: 'completed',
      followUps: [{ id: 'one', state: 'sent' }],
      usedFollowUpIds: ['one'],
    });
    expect((await events(handle.workflowId)).length).toBeLessThanOrEqual(40);
  }));

test('polls that a worker holds cost no event and no action of their own, and are all counted', () =>
  withBench(
    async () => {
      upstream.show = (read) => (read > 5 ? { status: 'completed' } : { status: 'active' });
      const polling = { min: 1_000, max: 1_000 };
      const handle = await bench.start({ projectId: 'p1', prompt: 'Fix it', settle: 0, polling });
      expect(await handle.result()).toMatchObject({ outcome: 'completed', polls: 6 });
      const { events } = await handle.fetchHistory();
      const attempts = events?.flatMap(({ activityTaskStartedEventAttributes: started }) => started?.attempt ?? []);
      expect(attempts).toEqual([1, 1]);
    },
    { holdsPolls: true },
  ));
