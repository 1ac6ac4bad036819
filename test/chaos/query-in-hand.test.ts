import { fileURLToPath } from 'node:url';
import { msToTs } from '@temporalio/common/lib/time.js';
import { bundleWorkflowCode, DefaultLogger, Worker, type WorkflowBundle } from '@temporalio/worker';
import { beforeAll, expect, test } from 'vitest';
import { connectDevServer } from '../support/dev-server.js';
import { failedTasks } from '../support/failed-tasks.js';
import { until } from '../support/worker-process.js';
import { createWorker } from '../support/worker.js';
import { useForFile } from '../support/use.js';

/** How long the server waits for a worker that stands still: with a query, and with a workflow task. */
const STICKY = msToTs('6 seconds');
const TASK_TIMEOUT = '15 seconds';

const server = useForFile(connectDevServer);
let workflowBundle: WorkflowBundle;

beforeAll(async () => {
  workflowBundle = await bundleWorkflowCode({
    workflowsPath: fileURLToPath(new URL('./counting-workflow.ts', import.meta.url)),
    workflowInterceptorModules: [fileURLToPath(new URL('../../src/temporal/private/stale-copy.ts', import.meta.url))],
    logger: new DefaultLogger('WARN'),
  });
});

/** A worker that takes what comes and answers nothing but a first workflow task. */
class StillWorker {
  readonly #stickyQueue = { name: `${server.taskQueue}-sticky`, kind: 2, normalName: server.taskQueue };

  async takeFirstTask(): Promise<void> {
    const { taskToken } = await this.#poll({ name: server.taskQueue });
    await server.client.workflowService.respondWorkflowTaskCompleted({
      namespace: server.namespace,
      taskToken,
      commands: [],
      stickyAttributes: { workerTaskQueue: this.#stickyQueue, scheduleToStartTimeout: STICKY },
    });
  }

  /** Waits for what comes next of the run it is in charge of; the server knows by then that it does. */
  async wait(): Promise<{ taken: Promise<'query' | 'task' | 'nothing'> }> {
    const taken = this.#poll(this.#stickyQueue).then(({ query, taskToken }) => {
      if (taskToken.length === 0) return 'nothing';
      return query ? 'query' : 'task';
    });
    await until(() => this.#isKnown(), 'the server knows of its poll');
    return { taken };
  }

  async #isKnown(): Promise<boolean> {
    const { workflowService } = server.client;
    const { namespace } = server;
    const { pollers } = await workflowService.describeTaskQueue({
      namespace,
      taskQueue: this.#stickyQueue,
      taskQueueType: 1,
    });
    return (pollers ?? []).length > 0;
  }

  #poll(taskQueue: { name: string }) {
    const { client, namespace } = server;
    const asked = { namespace, taskQueue, identity: 'stands still' };
    return client.withDeadline(Date.now() + 60_000, () => client.workflowService.pollWorkflowTaskQueue(asked));
  }
}

function start(type: 'called' | 'timed', workflowId: string, isShown = false) {
  return server.client.workflow.start(type, {
    taskQueue: server.taskQueue,
    workflowId,
    workflowTaskTimeout: TASK_TIMEOUT,
    args: [isShown],
  });
}

let thrownAway = 0;

function newWorker(bundle = workflowBundle): Promise<Worker> {
  const { nativeConnection: connection, taskQueue } = server;
  const activities = { shout: (text: string) => Promise.resolve(text.toUpperCase()) };
  const sinks = { staleCopies: { thrownAway: { fn: () => void (thrownAway += 1), callDuringReplay: true } } };
  return createWorker({ connection, taskQueue, activities, workflowBundle: bundle, sinks });
}

/** A worker is asked by way of another that stands still, which then takes a workflow task that no one completes. */
async function historyOfTwoHands(type: 'called' | 'timed', workflowId: string, bundle: WorkflowBundle) {
  const handle = await start(type, workflowId);
  const still = new StillWorker();
  await still.takeFirstTask();
  const worker = await newWorker(bundle);
  await worker.runUntil(async () => {
    const first = await still.wait();
    const asked = handle.query('calls');
    expect(await first.taken).toBe('query');
    const second = await still.wait();
    await handle.signal('call');
    expect(await second.taken).toBe('task');
    expect(await asked).toBe(1);
    await handle.signal('call');
    expect(await handle.result()).toBe('DONE');
  });
  return handle.fetchHistory();
}

test.for(['called', 'timed'] as const)(
  'a query that meets a workflow task in another worker’s hand leaves a history that replays: %s',
  async (type) => {
    const before = thrownAway;
    const history = await historyOfTwoHands(type, `${server.taskQueue}-${type}`, workflowBundle);
    await expect(Worker.runReplayHistory({ workflowBundle }, history)).resolves.toBeUndefined();
    expect(thrownAway).toBe(before + 1);
  },
);

test('a guard that is switched off is missed: the history does not replay', async () => {
  const before = thrownAway;
  const code = `globalThis.staleCopyGuard = 'off'; ${workflowBundle.code}`;
  const history = await historyOfTwoHands('timed', `${server.taskQueue}-off`, { ...workflowBundle, code });
  await expect(Worker.runReplayHistory({ workflowBundle }, history)).rejects.toThrow('Nondeterminism');
  expect(thrownAway).toBe(before);
});

test('a query that comes first to a new worker costs no workflow task', async () => {
  const handle = await start('called', `${server.taskQueue}-2`, true);
  const former = await newWorker();
  await former.runUntil(() => handle.query('calls'));
  const worker = await newWorker();
  await worker.runUntil(async () => {
    expect(await handle.query('calls')).toBe(0);
    await handle.signal('call');
    await handle.signal('call');
    expect(await handle.result()).toBe('DONE');
  });
  expect(failedTasks((await handle.fetchHistory()).events)).toEqual([]);
});
