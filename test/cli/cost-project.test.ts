import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runMixedJobs } from '../../bench/mixed-jobs.js';
import { startCountedServer, totalOf, type Actions, type CountedServer } from './counted-server.js';
import { envOf, jsonLines, type CliRun } from './run-cli.js';
import { runInProcess } from './run-in-process.js';

const MOST_MS = 300_000; // a busy machine starts a process slowly

let counted: CountedServer;
let { server, sandbox, jobs } = {} as CountedServer;

beforeAll(async () => {
  counted = await startCountedServer();
  ({ server, sandbox, jobs } = counted);
}, MOST_MS);
afterAll(() => counted.close());

function cli(args: string[]): Promise<CliRun> {
  return runInProcess(['cost', ...args], { env: envOf(server) });
}

let projects: string[];

test(
  'the cost of the projects of 40 mixed jobs is within 2 % of what the server counts',
  async () => {
    const before = await counted.settledActions();
    projects = [`one ${randomUUID()}`, `two "${randomUUID()}"`];
    const work = { jobs, control: sandbox, projects, tag: randomUUID(), n: 40, longMs: 12_000 };
    const { workflowIds, projects: used } = await runMixedJobs(work);
    const after = await counted.settledActions();
    const runs = await Promise.all(used.map((project) => cli(['--project', project, '--json'])));
    const lines = runs.flatMap(({ stdout }) => jsonLines(stdout) as unknown as Line[]);
    const ids = lines.filter(({ workflow }) => workflow === 'agentJob').map(({ workflowId }) => workflowId);
    expect(ids.toSorted()).toEqual(workflowIds.toSorted());
    const byServer = totalOf(after) - totalOf(before);
    const estimated = lines.reduce((sum, { billableActions }) => sum + billableActions, 0);
    expect(Math.abs(estimated - byServer) / byServer).toBeLessThanOrEqual(0.02);
    const increase = (kind: string) => (after[kind] ?? 0) - (before[kind] ?? 0);
    // What each event of a history stands for is no estimate.
    expect(sumsOf(lines)).toMatchObject({
      starts: increase('grpc_StartWorkflowExecution'),
      activities: increase('command_ScheduleActivityTask'),
      timers: increase('command_StartTimer'),
      updates: increase('message_UpdateWorkflowExecution_Acceptance'),
      searchAttributeUpserts: increase('command_UpsertWorkflowSearchAttributes'),
      memoUpserts: increase('command_ModifyWorkflowProperties'),
    });
  },
  MOST_MS,
);

test(
  'for people it is told by type of workflow and by kind of action, in all and per job',
  async () => {
    const [project = ''] = projects;
    const config = { workflowExecutionRetentionTtl: { seconds: 86_400 as never } };
    await server.client.workflowService.updateNamespace({ namespace: server.namespace, config });
    const { stdout, stderr, code } = await cli(['--project', project, '--days', '30']);
    expect({ stderr: stderr.replace(/\d+ workflows? read\n/g, ''), code }).toEqual({ stderr: '', code: 0 });
    expect(stdout).toMatch(/^Project +one \S+\nStarted since +\d{4}-\S+Z\n/);
    expect(stdout).toMatch(/\nWORKFLOW +COUNT +RUNS +EVENTS +BYTES +READS +ACTIONS +ACTIONS EACH\nagentJob +19 +19 /);
    expect(stdout).toMatch(/\nBILLABLE ACTIONS +ALL +PER JOB\nstarts +19 +1\.0\n/);
    expect(stdout).toContain('(closed workflows are kept for 1 day: older ones are gone)');
  },
  MOST_MS,
);

test(
  'the cost of a recurring job is that of its run and its job; the Schedule adds two, and the trigger one',
  async () => {
    const projectId = `again ${randomUUID()}`;
    const handle = await jobs.schedule({ projectId, name: 'nightly', prompt: 'Tidy up', every: '1 day', paused: true });
    const before = await counted.settledActions();
    await handle.trigger();
    await expect
      .poll(async () => (await handle.lastRuns(1))[0]?.fate, { timeout: 120_000, interval: 2_000 })
      .toBe('ended');
    const after = await counted.settledActions();
    const lines = jsonLines((await cli(['--project', projectId, '--json'])).stdout) as unknown as Line[];
    const types = lines.map(({ workflow }) => workflow);
    expect(types.toSorted()).toEqual(['agentJob', 'recurringJob']);
    const estimated = lines.reduce((sum, { billableActions }) => sum + billableActions, 0);
    // A marker and a memo of the Schedule, and the request that triggered it.
    expect(totalOf(after) - totalOf(before) - estimated).toBe(3);
  },
  MOST_MS,
);

test(
  'a project of which nothing was started is an error, for its id may be mistyped',
  async () => {
    const { code, stdout, stderr } = await cli(['--project', 'nobody "here"', '--days', '1']);
    expect(stderr).toContain('nothing of the project "nobody \\"here\\"" was started in the last 1 day; check the id');
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  },
  MOST_MS,
);

test.each([
  [['--project', 'p', '--days', '0'], '--days must be a whole number of days, 1 to 3,650'],
  [['--project', 'p', '--days', '1.5'], '--days must be a whole number of days'],
  [['--project', '..'], '--project must not be'],
  [['--project', 'p', '--batch', 'b'], 'give a workflow id or --batch, not both'],
  [['agent-job/p/k', '--project', 'p', '--days', '2'], '--days goes with --project alone'],
  [['--batch', 'b', '--days', '2'], '--days goes with --project'],
  [[], 'name a job by its workflow id, or jobs with --batch'],
])('cost %j says what is wrong, without a server', async (args, text) => {
  const { code, stderr } = await runInProcess(['cost', ...args], { env: { TEMPORAL_ADDRESS: '127.0.0.1:1' } });
  expect(stderr).toContain(text);
  expect(code).toBe(2);
});

interface Line {
  workflowId: string;
  workflow: string;
  billableActions: number;
  historyEvents: number;
  actions: Actions;
}

function sumsOf(lines: Line[]): Actions {
  const sums: Actions = {};
  for (const { actions } of lines) {
    for (const [kind, count] of Object.entries(actions)) sums[kind] = (sums[kind] ?? 0) + count;
  }
  return sums;
}
