/**
 * One run of the workflow under the SDK's own activator, in this process: the jobs of a workflow task go in, and its
 * commands come out. So promises, scopes and conditions settle in the very order of a real worker.
 */
import './sdk-globals.js';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import type { coresdk } from '@temporalio/proto';
import type { WorkflowInfo } from '@temporalio/workflow';
import { SdkFlags } from '@temporalio/workflow/lib/flags.js';
import { setActivator } from '@temporalio/workflow/lib/global-attributes.js';
import { Activator } from '@temporalio/workflow/lib/internals.js';
import {
  activate,
  concludeActivation,
  initialize,
  tryUnblockConditions,
} from '@temporalio/workflow/lib/worker-interface.js';

type Jobs = coresdk.workflow_activation.IWorkflowActivationJob;
export type Command = coresdk.workflow_commands.IWorkflowCommand;
export type Payloads = Record<string, Payload>;

/** A job of a workflow task, named as the SDK's protocol names it. */
export type Job = { [Name in keyof Jobs]-?: { variant: Name } & Record<Name, NonNullable<Jobs[Name]>> }[keyof Jobs];

export interface RunStart {
  workflow: (input: never) => Promise<unknown>;
  input: Payload[];
  runId: string;
  /** The run before, if this one continues it. */
  continued: string | undefined;
  attempt: number;
  /** A number that no other run has. */
  seed: number;
  memo: Payloads;
  attributes: Payloads;
}

/** What every run of the simulation has. */
const FIXED = {
  workflowId: 'agent-job/model/1',
  workflowType: 'agentJob',
  namespace: 'model',
  taskQueue: 'model',
  historyLength: 1,
  historySize: 1,
  taskTimeoutMs: 10_000,
};

export class ActivatedRun {
  readonly id: string;
  readonly #start: RunStart;
  readonly #activator: Activator;
  #tasks = 0;

  constructor(start: RunStart, now: number) {
    const { runId, continued, attempt, seed, workflow } = start;
    const info = {
      ...FIXED,
      runId,
      attempt,
      ...(continued !== undefined && { continuedFromExecutionRunId: continued }),
      originalExecutionRunId: runId,
      firstExecutionRunId: 'run-1',
      startTime: new Date(now),
      runStartTime: new Date(now),
      memo: {},
      searchAttributes: {},
      continueAsNewSuggested: false,
      unsafe: { isReplaying: false, isReplayingHistoryEvents: false, now: () => now, random: Math.random },
    } as unknown as WorkflowInfo;
    this.id = runId;
    this.#start = start;
    this.#activator = new Activator({
      info,
      now,
      randomnessSeed: [seed],
      registeredActivityNames: new Set(),
      showStackTraceSources: false,
      stackTracesEnabled: false,
      getTimeOfDay: () => BigInt(now),
      sourceMap: { version: 3, sources: [], names: [], mappings: '' },
    } as unknown as ConstructorParameters<typeof Activator>[0]);
    this.#activator.workflow = workflow as never;
    this.#activator.addKnownFlags(Object.values(SdkFlags).map(({ id }) => id));
  }

  get tasks(): number {
    return this.#tasks;
  }

  /** One workflow task, with another activation for each activity whose cancellation it did not wait for. */
  async task(jobs: Job[], { now, isContinueSuggested }: { now: number; isContinueSuggested: boolean }) {
    this.#tasks += 1;
    this.#activator.now = now;
    this.#activator.mutateWorkflowInfo((info) => ({ ...info, continueAsNewSuggested: isContinueSuggested }));
    setActivator(this.#activator);
    try {
      activate(this.#activation(jobs));
      do await settled();
      while (tryUnblockConditions() > 0);
      this.#activator.getAndResetSinkCalls();
      return (concludeActivation().successful?.commands ?? []) as Command[];
    } finally {
      setActivator(undefined);
    }
  }

  /** The answer to a query, as JSON brings it. */
  query(name: string): unknown {
    setActivator(this.#activator);
    try {
      const handler = this.#activator.queryHandlers.get(name)?.handler as (() => unknown) | undefined;
      return handler && JSON.parse(JSON.stringify(handler()));
    } finally {
      setActivator(undefined);
    }
  }

  #activation(jobs: Job[]): never {
    if (this.#tasks > 1) return { jobs } as never;
    const { input, memo, attributes } = this.#start;
    const start = {
      arguments: input,
      memo: { fields: memo },
      searchAttributes: { indexedFields: attributes },
    } as unknown as Parameters<typeof initialize>[0];
    initialize(start);
    return { jobs: [{ variant: 'initializeWorkflow', initializeWorkflow: start }, ...jobs] } as never;
  }
}

export function valueOf(payload: unknown): unknown {
  return payload ? defaultPayloadConverter.fromPayload(payload as Payload) : undefined;
}

/** The values of search attributes by name; null for one that was removed. */
export function valuesOf(payloads: Payloads): Map<string, unknown> {
  return new Map(Object.entries(payloads).map(([name, payload]) => [name, valueOf(payload) ?? null]));
}

/** Resolves when all promise callbacks have run. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
