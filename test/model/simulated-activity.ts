import { AsyncLocalStorage } from 'node:async_hooks';
import type { Client } from '@temporalio/client';
import { defaultDataConverter } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';

/** One attempt of an activity, as the simulated server sees it. */
export interface Attempt {
  number: number;
  name: string;
  /** The number of its activity. */
  activity: number;
  /** Heartbeat details: those of the attempt before, then those of this one. */
  details: unknown;
  at: number;
  runId: string;
  input: unknown;
  isDead: boolean;
  /** The worker dies here and now. */
  die?: () => void;
}

const attempts = new AsyncLocalStorage<Attempt>();
const silent = { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error() {} };

/** Ends the attempt that calls it as a killed worker would: its result is lost. */
export function dieHere(): void {
  attempts.getStore()?.die?.();
}

/** What the activity of the attempt that calls it was given. */
export function inputHere<Input>(): Input {
  return attempts.getStore()?.input as Input;
}

/** The number of the activity whose attempt calls it. */
export function activityHere(): number {
  return attempts.getStore()!.activity;
}

/** Runs one attempt with the real activity's code. */
export async function runAttempt(
  attempt: Attempt,
  work: (input: never) => Promise<unknown>,
  { input, workflow }: { input: never; workflow: unknown },
): Promise<{ result: unknown } | { retryMs: number | undefined }> {
  const say = (details: unknown) => {
    if (!attempt.isDead) attempt.details = JSON.parse(JSON.stringify(details));
  };
  const client = {
    withAbortSignal: <T>(_: unknown, call: () => T) => call(),
    withDeadline: <T>(_: number, call: () => T) => call(),
    // No other workflow holds the job that is adopted.
    connection: { workflowService: { listWorkflowExecutions: () => Promise.resolve({ executions: [] }) } },
    options: { namespace: 'model', identity: 'model', loadedDataConverter: defaultDataConverter },
    workflow,
    activity: { heartbeat: (_: unknown, details: unknown) => Promise.resolve(say(details)) },
  };
  const environment = new MockActivityEnvironment(
    {
      attempt: attempt.number,
      activityType: attempt.name,
      heartbeatDetails: attempt.details,
      currentAttemptScheduledTimestampMs: attempt.at,
      workflowExecution: { workflowId: 'agent-job/model/1', runId: attempt.runId },
    },
    { client: client as unknown as Client, logger: silent },
  );
  environment.on('heartbeat', say);
  try {
    return { result: await attempts.run(attempt, () => environment.run(work as never, input)) };
  } catch (error) {
    const { type, nextRetryDelay } = error as { type?: string; nextRetryDelay?: number };
    if (type !== 'StillPolling' && type !== 'StillWaiting' && type !== 'FenceRefused') throw error;
    return { retryMs: nextRetryDelay === undefined ? undefined : Number(nextRetryDelay) };
  }
}
