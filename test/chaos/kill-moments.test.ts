import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { AgentJobs, type JobState } from '../../src/starter.js';
import { startProcess, type ManagedProcess } from '../../src/local/child-process.js';
import { SANDBOX_API_KEY } from '../../src/testing.js';
import { connectDevServer } from '../support/dev-server.js';
import { startJobsWorker } from '../support/jobs-worker.js';
import { UpstreamJournal } from './upstream-journal.js';
import { UpstreamProcess } from './upstream-process.js';
import { workerFaultArguments, workerProgram } from './worker-fault.js';
import { newFolder } from '../support/folder.js';
import { useForFile } from '../support/use.js';

interface Row {
  title: string;
  moment: string;
  action: string;
  /** Jobs that the create makes. */
  jobs: number;
  /** Whether the create is in doubt afterwards. */
  isUnknown: boolean;
}

const row = (title: string, moment: string, action: string, jobs: number, isUnknown: boolean): Row => ({
  title,
  moment,
  action,
  jobs,
  isUnknown,
});

/**
 * A fault in one worker at its first write; the worker that replaces it has none. Before the fence and within the body
 * are one to what comes next, so each is there with one kind of fault.
 */
const ROWS: Row[] = [
  row('killed within the body, before the fence: the next worker sends it', 'bodyBegun', 'kill', 1, false),
  row('cut off from the answer to its fence: it is sent anew', 'fenceResponse', 'lose', 1, false),
  row('killed between fence and last byte: no worker sends it, and it shows as unknown', 'afterFence', 'kill', 0, true),
  row('killed after the answer: no worker sends it again, and it shows as unknown', 'responseRead', 'kill', 1, true),
  // The zombie: it wakes when the server has given its attempt up.
  row(
    'asleep before the fence until it was given up: only the next attempt sends',
    'beforeFence',
    'freeze40',
    1,
    false,
  ),
  row('asleep behind the fence until it was given up: it sends nothing any more', 'afterFence', 'freeze40', 0, true),
  row(
    'asleep behind the fence for 12 s: it does not send, says so, and sends anew',
    'afterFence',
    'freeze12',
    1,
    false,
  ),
  // The zombie on a machine that was suspended: to it no time has passed.
  row(
    'suspended within the body, all its clocks held: only the next attempt sends',
    'bodyBegun',
    'suspend40',
    1,
    false,
  ),
  row(
    'suspended behind the fence, its monotonic clock held: it sends nothing any more',
    'afterFence',
    'sleep40',
    0,
    true,
  ),
  row(
    'suspended behind the fence, all its clocks held, which remains: it sends, and shows as unknown',
    'afterFence',
    'suspend40',
    1,
    true,
  ),
];
/** The attempt's 30 s, a zombie's 40 s, and what starting these processes takes on a busy machine. */
const SETTLED_WITHIN_MS = 180_000;

const folder = newFolder();
const server = useForFile(connectDevServer);
let upstream: UpstreamProcess;
/** What ends the workers: first the processes, then those that took over. */
const processes: ManagedProcess[] = [];
const successors: Promise<() => Promise<void>>[] = [];
let isOver = false;
const workflowIds: string[] = [];

beforeAll(async () => {
  upstream = await UpstreamProcess.start({ folder, activeMs: 300, faults: [] });
});

afterAll(async () => {
  // Jobs that still need a person, without a worker, would delay other tests that list such jobs.
  const handles = workflowIds.map((id) => server.client.workflow.getHandle(id));
  await Promise.all(handles.map((handle) => handle.terminate().catch(() => {})));
  isOver = true;
  await Promise.all(processes.map((worker) => worker.stop(0)));
  for (const successor of successors) await (await successor)();
  await upstream?.close();
});

/** Starts one job, injects the fault into its create, and waits until the job has ended or needs a person. */
async function injectFault({ moment, action }: Row): Promise<{ state: JobState; isInjected: boolean }> {
  const name = `fault-${moment}-${action}`;
  const own = join(folder, name);
  await mkdir(own);
  const taskQueue = `${server.taskQueue}-${name}`;
  const logFile = join(own, 'worker-faults.log');
  const env = {
    TEMPORAL_ADDRESS: server.address,
    TEMPORAL_NAMESPACE: server.namespace,
    AGENT_JOBS_TASK_QUEUE: taskQueue,
    UPSTREAM_BASE_URL: upstream.url,
    UPSTREAM_TIMEOUT: '15 seconds',
    ADMIN_API_KEY: SANDBOX_API_KEY,
    LOG_LEVEL: 'error',
  };
  const args = [...workerFaultArguments({ moment, action, nth: 1 }, logFile), workerProgram];
  const takeOver = async (): Promise<() => Promise<void>> => {
    if (isOver) return async () => {};
    if (existsSync(logFile)) return startJobsWorker(server, taskQueue, { url: upstream.url, apiKey: SANDBOX_API_KEY });
    // The first, or one that ended before its first write, on a machine too busy to start it.
    const worker = await startProcess({ program: process.execPath, args, env, logFile: join(own, 'worker.log') });
    processes.push(worker);
    await worker.ended;
    return takeOver();
  };
  successors.push(takeOver());
  const jobs = new AgentJobs({ client: server.client, taskQueue });
  const job = await jobs.start({ key: `${taskQueue}`, projectId: 'p1', prompt: promptOf({ moment, action }) });
  workflowIds.push(job.workflowId);
  const until = Date.now() + SETTLED_WITHIN_MS;
  for (;;) {
    const state = await job.state().catch(() => null);
    const isSettled = state?.phase === 'done' || state?.phase === 'needsAttention';
    const isInjected = existsSync(logFile);
    if (state && (isSettled || Date.now() > until)) {
      // A zombie that still meant to send has done so by the time the same worker has done another job.
      await (await jobs.start({ key: `${taskQueue}-next`, projectId: 'p1', prompt: 'Next' })).result();
      return { state, isInjected };
    }
    await pause(1_000);
  }
}

function promptOf({ moment, action }: Pick<Row, 'moment' | 'action'>): string {
  return `${action} ${moment}`;
}

describe('a create whose worker is', { concurrent: true }, () => {
  for (const each of ROWS) {
    test(`${each.title}`, async ({ expect }) => {
      const { state, isInjected } = await injectFault(each);
      expect(isInjected).toBe(true);
      expect(state).toMatchObject(
        each.isUnknown ? { phase: 'needsAttention', unknown: { kind: 'create' } } : { phase: 'done', unknown: null },
      );
      const journal = new UpstreamJournal(upstream.journal);
      journal.refresh();
      expect(journal.jobsOfPrompt.get(promptOf(each)) ?? []).toHaveLength(each.jobs);
    });
  }
});
