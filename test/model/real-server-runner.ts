/** Runs a scenario on Temporal's time-skipping server, reports all that happens to the model, and compares the end. */
import { randomUUID } from 'node:crypto';
import {
  WorkflowFailedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
  type WorkflowHandle,
} from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import {
  followUpSignal,
  jobStateQuery,
  pollNowSignal,
  resolveUnknownUpdate,
  sendFollowUpUpdate,
  type AgentJobResult,
} from '../../src/contract.js';
import type { agentJob } from '../../src/workflows/index.js';
import { unlessForgotten } from '../support/time-skipping.js';
import type { Asked } from './contract-model.js';
import { fittingAction, ModelMonitor } from './model-monitor.js';
import { inputOf, modelledUpstream } from './modelled-upstream.js';
import type { Action, Scenario } from './scenario.js';
import type { RealServer } from './real-server.js';

/**
 * On a busy machine the server's clock advances while nothing happens, so the last read may be late too. Milliseconds.
 */
const TOLERANCE = { slack: 8_000, lateness: 6 * 60_000 };
/** Pauses between two queries of a job for which no action is left. */
const QUERY_PAUSE_MS = { min: 10_000, max: 10 * 60_000 };
const MAX_QUERIES = 150;

/** Rejects with what was broken. */
export async function runOnRealServer(scenario: Scenario, server: RealServer): Promise<void> {
  await new RealServerRunner(playable(scenario), server).run();
}

/**
 * Without what needs a simulated clock: calls take no time, workers don't die, decisions don't race with time limits.
 */
function playable(scenario: Scenario): Scenario {
  const writes = (answers: Scenario['creates']) =>
    answers.map(
      (answer) => ({ ...answer, kind: answer.kind === 'workerDies' ? 'inDoubt' : answer.kind, takesMs: 0 }) as const,
    );
  return {
    ...scenario,
    isRepeated: false,
    creates: writes(scenario.creates),
    messages: writes(scenario.messages),
    reads: scenario.reads.map((read) => ({ ...read, takesMs: 0 })),
    polling: { ...scenario.polling, min: Math.max(scenario.polling.min, 5_000), max: 60_000 },
    decisions: scenario.decideWithin === null ? scenario.decisions : [],
    decideWithin: scenario.onUnknownOutcome === 'retry' ? null : scenario.decideWithin,
  };
}

class RealServerRunner {
  readonly #scenario: Scenario;
  readonly #server: RealServer;
  readonly #environment: TestWorkflowEnvironment;
  readonly #updates: Promise<void>[] = [];
  #updateCount = 0;
  #monitor!: ModelMonitor;
  #handle!: WorkflowHandle<typeof agentJob>;
  /**
   * The server's time at the upstream's last call; an attempt's own `scheduled` time here is that of the attempt
   * before.
   */
  #callAt = 0;

  constructor(scenario: Scenario, server: RealServer) {
    this.#scenario = scenario;
    this.#server = server;
    this.#environment = server.environment;
  }

  async run(): Promise<void> {
    const scenario = this.#scenario;
    const startedAt = await this.#now();
    this.#monitor = new ModelMonitor({ scenario, startedAt, now: () => this.#callAt, tolerance: TOLERANCE });
    const { model } = this.#monitor;
    this.#server.upstream = modelledUpstream(scenario, {
      ...this.#monitor.upstreamEvents,
      arrive: async () => void (this.#callAt = await this.#now()),
      wait: () => Promise.resolve(),
      die: () => {},
    });
    this.#server.onWritten = (result) => this.#monitor.writeEnded(result);
    this.#server.onReadToAdopt = ({ kind }) =>
      this.#monitor.record(() => (kind === 'found' ? model.resolved(this.#callAt, 'adopt') : model.adoptRefused()));
    const { tasksPerRun } = scenario;
    const memo = tasksPerRun < 1e6 ? { eventsPerRun: tasksPerRun * 5 } : {};
    // The queue of a project outlives its jobs.
    this.#handle = await this.#server.start(inputOf(scenario, `p-${randomUUID()}`), { memo });
    let at = 0;
    for (const action of scenario.actions) {
      if (action.at > at) await this.#environment.sleep(action.at - at);
      at = Math.max(at, action.at);
      if (await this.#isOver()) break;
      await this.#act(action);
    }
    await this.#untilOver();
    await this.#compare();
  }

  #now(): Promise<number> {
    return this.#environment.currentTimeMs();
  }

  async #isOver(): Promise<boolean> {
    const { status } = await this.#handle.describe();
    return this.#monitor.broken !== null || (status.name !== 'RUNNING' && status.name !== 'CONTINUED_AS_NEW');
  }

  async #act(action: Action): Promise<void> {
    const now = await this.#now();
    const monitor = this.#monitor;
    const { model } = monitor;
    switch (action.kind) {
      case 'signal':
      case 'update': {
        const input = { id: action.id, prompt: monitor.promptOf(action) };
        const asked = monitor.record(() => model.asked(now, input.id, input.prompt));
        const sent = action.kind === 'signal' ? this.#handle.signal(followUpSignal, input) : this.#update(input, asked);
        return sent.catch(() => monitor.record(() => (asked === 'new' ? model.neverAsked(input.id) : undefined)));
      }
      case 'malformed':
        return this.#handle.signal(followUpSignal, { id: 'malformed', prompt: '' }).catch(() => {});
      case 'pollNow':
        monitor.record(() => model.pollNow(now));
        return this.#handle.signal(pollNowSignal).catch(() => {});
      case 'turn':
        return;
      case 'cancel':
        return this.#handle.cancel().then(() => monitor.record(() => model.cancelRequested(now)), unlessOver);
    }
  }

  /** Resolves when the run has accepted the update; its result may take days. */
  async #update(input: { id: string; prompt: string }, asked: Asked | undefined): Promise<void> {
    this.#updateCount += 1;
    const update = await this.#handle.startUpdate(sendFollowUpUpdate, {
      args: [input],
      updateId: `update ${this.#updateCount}`,
      waitForStage: 'ACCEPTED',
    });
    this.#updates.push(
      update.result().then(
        ({ state }) => this.#monitor.record(() => this.#monitor.model.answered(0, input.id, state, asked)),
        (error: unknown) => this.#monitor.record(() => (isConflict(error, asked) ? undefined : unlessForgotten(error))),
      ),
    );
  }

  /** Lets time pass until the run is over, and resolves its writes in doubt meanwhile. */
  async #untilOver(): Promise<void> {
    let pauseMs = QUERY_PAUSE_MS.min;
    for (let queries = 0; !(await this.#isOver()); queries++) {
      const { unknown } = await this.#handle.query(jobStateQuery);
      if (queries === MAX_QUERIES) await this.#act({ kind: 'cancel', at: 0 });
      if (unknown && this.#scenario.decideWithin === null) await this.#decide(unknown.kind, unknown.since);
      else {
        await this.#environment.sleep(pauseMs);
        pauseMs = Math.min(2 * pauseMs, QUERY_PAUSE_MS.max);
      }
    }
  }

  async #decide(kind: 'create' | 'followUp', since: string): Promise<void> {
    const decision = this.#monitor.nextDecision();
    if (!decision) return this.#act({ kind: 'cancel', at: 0 });
    if (decision.afterMs > 0) await this.#environment.sleep(decision.afterMs);
    const action = fittingAction(decision, kind);
    const now = await this.#now();
    if (action === 'adopt') return this.#adopt(now, since);
    this.#monitor.record(() => this.#monitor.model.resolved(now, action));
    await this.#handle.executeUpdate(resolveUnknownUpdate, { args: [{ since, action }] }).catch(unlessForgotten);
  }

  /** The run reads the job first, and refuses where the job does not exist. */
  async #adopt(now: number, since: string): Promise<void> {
    this.#monitor.record(() => this.#monitor.model.adoptAsked(now));
    const input = { since, action: 'adopt', jobId: 'job-1' } as const;
    await this.#handle.executeUpdate(resolveUnknownUpdate, { args: [input] }).catch((error: unknown) => {
      if (!(error instanceof WorkflowUpdateFailedError)) unlessForgotten(error);
    });
  }

  async #compare(): Promise<void> {
    const monitor = this.#monitor;
    if (monitor.broken !== null) throw monitor.broken;
    const { verdict, result } = await this.#handle.result().then(
      (completed) => ({ verdict: completed.outcome as string, result: completed as AgentJobResult | null }),
      (error: unknown) => ({ verdict: verdictOf(error), result: null }),
    );
    const { closeTime } = await this.#handle.describe();
    const state = await this.#handle.query(jobStateQuery);
    await Promise.all(this.#updates);
    monitor.ended(closeTime?.getTime() ?? 0, verdict, state, result);
    if (monitor.broken !== null) throw monitor.broken;
  }
}

/** Refused, since its id was taken with another prompt. */
function isConflict(error: unknown, asked: Asked | undefined): boolean {
  const cause = error instanceof WorkflowUpdateFailedError && error.cause;
  return asked === 'conflict' && cause instanceof ApplicationFailure && cause.type === 'FollowUpConflict';
}

/** The run may end after the query that found it running. */
function unlessOver(error: unknown): void {
  if (!(error instanceof WorkflowNotFoundError)) throw error;
}

function verdictOf(error: unknown): string {
  const cause = error instanceof WorkflowFailedError ? error.cause : error;
  if (cause instanceof CancelledFailure) return 'canceled';
  return cause instanceof ApplicationFailure ? (cause.type ?? 'failure') : String(cause);
}
