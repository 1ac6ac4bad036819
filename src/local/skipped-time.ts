/**
 * Moves the time of a test system by what Temporal's dev server can do: it skips the waits of one workflow at a time,
 * as far as it is told, while the workflow has nothing under way. All open workflows go the same steps, and the sandbox
 * goes before them. So no answer depends on the speed of the machine, and no request is skipped.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client, WorkflowClientInterceptor } from '@temporalio/client';
import { checkDuration } from '../contract/input-checks.js';
import type { Sandbox } from '../sandbox/sandbox.js';

/** Settings of the dev server: skipping, and timers that ring at their time, not up to a second later. */
export const SKIPPING_SERVER = {
  'frontend.WorkflowTimeSkippingEnabled': 'true',
  'history.timerProcessorMaxTimeShift': '"1ms"',
} as const;

/**
 * A setting of the worker. With any limit the server keeps the waits between reads, which it can skip; a worker that
 * keeps them itself has a read under way all the time. No test comes near this one.
 */
export const SKIPPING_WORKER = { UPSTREAM_REQUESTS_PER_SECOND: '1000' } as const;

/** The sandbox is ahead of the workflows by at most one step. */
const STEPS = 50;
const MIN_STEP_MS = 1_000;
/** Skips of one step, each to the next thing that a workflow waits for: the server's own limit is 100. */
const MAX_SKIPS = 1_000_000;
/** Requests of a step take at most seconds; a workflow that no worker takes up would be waited for in vain. */
const STEP_LIMIT_MS = 60_000;
const LOOK_EVERY_MS = 10;
const GRPC = { invalidArgument: 3, notFound: 5, unimplemented: 12 } as const;

/** The time of a test system. */
export class SkippedTime {
  /** What this process started: the server's list of open workflows may be late. */
  readonly #started = new Set<string>();
  #last: Promise<unknown> = Promise.resolve();

  /** For the system's client. */
  readonly interceptor: WorkflowClientInterceptor = {
    startWithDetails: (input, next) => {
      this.#started.add(input.options.workflowId);
      return next(input);
    },
    signalWithStart: (input, next) => {
      this.#started.add(input.options.workflowId);
      return next(input);
    },
    startUpdateWithStart: (input, next) => {
      this.#started.add(input.workflowStartOptions.workflowId);
      return next(input);
    },
  };

  /** Moves all time; one call after the other. */
  async skip(client: Client, sandbox: Pick<Sandbox, 'advance'>, duration: number | string): Promise<void> {
    const ms = checkDuration(duration, 'duration');
    const skipped = this.#last.then(() => this.#skip(client, sandbox, ms));
    this.#last = skipped.catch(() => {});
    await skipped;
  }

  async #skip(client: Client, sandbox: Pick<Sandbox, 'advance'>, ms: number): Promise<void> {
    const most = Math.max(MIN_STEP_MS, Math.ceil(ms / STEPS));
    for (let left = ms; left > 0; left -= most) {
      const step = Math.min(most, left);
      await sandbox.advance(step);
      const open = await this.#open(client);
      await Promise.all(open.map((workflowId) => this.#step(client, workflowId, step)));
    }
  }

  async #open(client: Client): Promise<string[]> {
    const open = new Set(this.#started);
    for await (const { workflowId } of client.workflow.list({ query: 'ExecutionStatus = "Running"' })) {
      open.add(workflowId);
    }
    return [...open];
  }

  async #step(client: Client, workflowId: string, ms: number): Promise<void> {
    try {
      await forward(client, workflowId, ms);
      await untilForwarded(client, workflowId);
    } catch (error) {
      const { code, message } = error as Error & { code?: number };
      if (code === GRPC.invalidArgument || code === GRPC.unimplemented) {
        throw new Error(`Time can't be skipped: it takes Temporal CLI 1.9.1 or later (${message})`, { cause: error });
      }
      if (code !== GRPC.notFound) throw error;
      this.#started.delete(workflowId);
    }
  }
}

/** Has the server skip what a workflow waits for, up to so much from its present time. */
async function forward({ workflowService, options }: Client, workflowId: string, ms: number): Promise<void> {
  const duration = { seconds: Math.floor(ms / 1_000) as never, nanos: (ms % 1_000) * 1e6 };
  await workflowService.updateWorkflowExecutionOptions({
    namespace: options.namespace,
    workflowExecution: { workflowId },
    updateMask: { paths: ['time_skipping_config'] },
    workflowExecutionOptions: {
      timeSkippingConfig: {
        enabled: true,
        // A child that skips without a limit would run through all its waits.
        disablePropagation: true,
        maxSessionSkipCount: MAX_SKIPS,
        fastForwardConfig: { id: 'step', duration },
      },
    },
  });
}

/** Resolves once a workflow is where it was sent, or has ended, or waits for a child that goes its own steps. */
async function untilForwarded({ workflowService, options }: Client, workflowId: string): Promise<void> {
  const execution = { workflowId };
  for (const startedAt = performance.now(); ; await delay(LOOK_EVERY_MS)) {
    const workflow = await workflowService.describeWorkflowExecution({ namespace: options.namespace, execution });
    const isSkipping = workflow.workflowExtendedInfo?.timeSkippingInfo?.effectiveConfig?.enabled === true;
    const hasChildren = (workflow.pendingChildren ?? []).length > 0;
    if (!isSkipping || hasChildren || workflow.workflowExecutionInfo?.closeTime) return;
    if (performance.now() - startedAt < STEP_LIMIT_MS) continue;
    const activities = (workflow.pendingActivities ?? []).map(({ activityType }) => activityType?.name ?? '');
    throw new Error(
      `Time can't be skipped: the workflow ${workflowId} had work under way for a minute ` +
        `(${activities.join(', ') || 'a workflow task'}). Does a worker poll its task queue? Does the upstream answer?`,
    );
  }
}
