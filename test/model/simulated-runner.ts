/** Runs a scenario on the simulated server, reports all that happens to the model, and compares. */
import type { ApplicationFailure } from '@temporalio/common';
import { vi } from 'vitest';
import { createJobActivities } from '../../src/activities/agent-job/job-activities.js';
import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import {
  SEARCH_ATTRIBUTE,
  SHOWN_WAITING_FOR,
  type AgentJobInput,
  type AgentJobResult,
  type JobState,
  type Turn,
} from '../../src/contract.js';
import { noMetrics } from '../support/no-metrics.js';
import { seededRandom } from '../../src/sandbox/random.js';
import type { Upstream } from '../../src/upstream/upstream.js';
import type { Asked } from './contract-model.js';
import { expectEqual, fittingAction, ModelMonitor, shownPolls, statesOf } from './model-monitor.js';
import { inputOf, modelledUpstream } from './modelled-upstream.js';
import { BrokenPromise } from './polls-model.js';
import { HORIZON_MS, type Action, type Decision, type Scenario } from './scenario.js';
import { activityHere, dieHere, inputHere } from './simulated-activity.js';
import { SimulatedQueue } from './simulated-queue.js';
import { Simulation, type End } from './simulation.js';

type Workflow = (input: AgentJobInput) => Promise<AgentJobResult>;

/** Resolves with a log of what happened, which the scenario alone decides; rejects with the first broken promise. */
export async function runSimulated(scenario: Scenario, agentJob: Workflow): Promise<readonly string[]> {
  const runner = new SimulatedRunner(scenario, agentJob);
  const now = () => runner.simulation.now;
  const spies = [
    vi.spyOn(Date, 'now').mockImplementation(now),
    vi.spyOn(performance, 'now').mockImplementation(now),
    vi.spyOn(Math, 'random').mockImplementation(seededRandom(scenario.randomSeed)),
  ];
  try {
    return await runner.run();
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}

class SimulatedRunner {
  readonly simulation: Simulation;
  readonly #scenario: Scenario;
  readonly #monitor: ModelMonitor;
  #decidedFor: string | null = null;
  #openUpdates = 0;
  #updates = 0;
  #strayTurns = 0;
  /** The last poll of each activity. */
  readonly #polls = new Map<number, number>();

  constructor(scenario: Scenario, workflow: Workflow) {
    this.#scenario = scenario;
    this.simulation = new Simulation({
      workflow: workflow as never,
      tasksPerRun: scenario.tasksPerRun,
      isBatching: scenario.isBatching,
      isRepeated: scenario.isRepeated,
      onTask: () => this.#monitor.record(() => this.#checkState()),
      onContinued: () => this.#monitor.record(() => this.#monitor.model.continuedAsNew(this.#now)),
      onEnd: (end) => this.#end(end),
      onActivityResult: (name, result, activity) => this.#activityEnded(name, result as WriteOutcome, activity),
      onActivityGoesOn: (activity) => this.#pollEnded(activity, 'goesOn'),
      onActivityCancelled: (activity) => this.#pollEnded(activity, 'cancelled'),
    });
    this.#monitor = new ModelMonitor({
      scenario,
      startedAt: this.simulation.now,
      now: () => this.#now,
      onBroken: (error) => (this.simulation.bug ??= error),
    });
    const queue = this.#startQueue();
    const { upstreamEvents } = this.#monitor;
    const upstream = modelledUpstream(scenario, {
      ...upstreamEvents,
      sendBegan: (kind, prompt) => {
        const { turn } = inputHere<{ turn: Turn | null }>();
        this.#monitor.record(() => queue.sent(turn && this.#now < turn.until ? turn.id : undefined));
        upstreamEvents.sendBegan(kind, prompt);
      },
      readBegan: () => {
        const number = upstreamEvents.readBegan();
        if (number > 0) this.#polls.set(activityHere(), number);
        return number;
      },
      wait: (ms) => new Promise((resolve) => this.simulation.queue.add(this.#now + ms, 'outside', () => resolve())),
      die: () => {
        dieHere();
        startWorker();
      },
    });
    const startWorker = () => {
      this.simulation.activities = activitiesOf(upstream, () => this.#now);
    };
    startWorker();
  }

  #startQueue(): SimulatedQueue {
    const { queue: answers, isQueueThere } = this.#scenario;
    const queue = new SimulatedQueue(answers, isQueueThere, {
      now: () => this.#now,
      later: (ms, happen) => this.simulation.queue.add(this.#now + ms, 'message', happen),
      giveTurn: (turn) => this.#giveTurn(turn),
      fail: (error) => this.#monitor.fail(error),
    });
    this.simulation.workflowClient = queue.client;
    return queue;
  }

  #giveTurn(turn: Pick<Turn, 'id' | 'until'>): void {
    this.#monitor.record(() => this.#monitor.model.turnGiven(this.#now, turn.until, this.#isWriting));
    // As of the queue in which the job waits.
    const { jobId } = this.simulation.query<JobState>('jobState');
    const operation = jobId === null ? 'create' : 'message';
    this.simulation.signal('requestTurn', { ...turn, operation, requests: 1 });
  }

  get #isWriting(): boolean {
    return this.simulation.pending.some((name) => name === 'createJob' || name === 'sendMessage');
  }

  async run(): Promise<readonly string[]> {
    const { queue } = this.simulation;
    for (const action of this.#scenario.actions) queue.add(this.#now + action.at, 'message', () => this.#act(action));
    queue.add(this.#now + HORIZON_MS, 'message', () => this.#act({ kind: 'cancel', at: 0 }));
    await this.simulation.play(inputOf(this.#scenario));
    if (this.#monitor.broken !== null) throw this.#monitor.broken;
    if (this.simulation.bug) throw this.simulation.bug;
    if (!this.simulation.end) throw new BrokenPromise('the run stands still');
    if (this.#openUpdates > 0) throw new BrokenPromise(`${this.#openUpdates} updates were never answered`);
    return this.#monitor.log;
  }

  get #now(): number {
    return this.simulation.now;
  }

  #act(action: Action): void {
    const monitor = this.#monitor;
    const { model } = monitor;
    switch (action.kind) {
      case 'signal':
      case 'update': {
        const input = { id: action.id, prompt: monitor.promptOf(action) };
        // First the model: an update may be answered within the call.
        const asked = monitor.record(() => model.asked(this.#now, input.id, input.prompt));
        return action.kind === 'signal' ? this.simulation.signal('followUp', input) : this.#update(input, asked);
      }
      case 'malformed':
        return this.simulation.signal('followUp', { id: 'malformed', prompt: '' });
      case 'pollNow':
        monitor.record(() => model.pollNow(this.#now));
        return this.simulation.signal('pollNow', undefined);
      case 'turn':
        this.#strayTurns += 1;
        return this.#giveTurn({ id: `stray ${this.#strayTurns}`, until: this.#now + action.validMs });
      case 'cancel':
        monitor.record(() => model.cancelRequested(this.#now));
        return this.simulation.cancel();
    }
  }

  #update(input: { id: string; prompt: string }, asked: Asked | undefined): void {
    this.#openUpdates += 1;
    this.#updates += 1;
    this.simulation.update('sendFollowUp', `update ${this.#updates}`, input).then(
      (answer) => {
        this.#openUpdates -= 1;
        const { state } = answer as { state: 'queued' };
        this.#monitor.record(() => this.#monitor.model.answered(this.#now, input.id, state, asked));
      },
      (error: unknown) => {
        this.#openUpdates -= 1;
        // Its caller sends it to the next run: nothing of it was taken.
        if (asked === 'conflict' && isConflict(error)) return;
        if (asked !== 'new' || !isRefusedAtEnd(error)) return this.#monitor.fail(error);
        this.#monitor.record(() => this.#monitor.model.refusedAtEnd(this.#now, input.id));
      },
    );
  }

  #activityEnded(name: string, result: WriteOutcome, activity: number): void {
    if (name === 'pollJob') this.#pollEnded(activity, 'result');
    else if (name === 'createJob' || name === 'sendMessage') this.#monitor.writeEnded(result);
  }

  #pollEnded(activity: number, by: 'result' | 'goesOn' | 'cancelled'): void {
    const number = this.#polls.get(activity);
    if (number === undefined) return;
    this.#polls.delete(activity);
    const { model } = this.#monitor;
    this.#monitor.record(() =>
      by === 'cancelled' ? model.pollLost(this.#now, number) : model.pollTaken(this.#now, number, by === 'result'),
    );
  }

  /** Compares what a query shows after each workflow task. */
  #checkState(): void {
    if (this.simulation.end || this.#monitor.broken !== null) return;
    const { model } = this.#monitor;
    const state = this.simulation.query<JobState>('jobState');
    if (!state.unknown) model.nothingUnknown(this.#now);
    const shown = statesOf(state.followUps);
    for (const followUp of state.phase === 'done' ? [] : shown)
      if (followUp.state === 'unknown' && !state.unknown) model.gaveUp(this.#now, followUp.id);
    if (state.phase !== 'done') expectEqual('follow-ups', shown, model.followUps);
    const since = model.unknownSince === null ? null : new Date(model.unknownSince).toISOString();
    // What ends at this very moment may be shown for the last time.
    const { decideWithin } = this.#scenario;
    const isEnding = state.unknown && Date.parse(state.unknown.since) + (decideWithin ?? Infinity) === this.#now;
    if (state.phase !== 'done' && !isEnding) {
      expectEqual('unknown', state.unknown?.since ?? null, since);
      model.shown(shownPolls(state));
      this.#checkPhase(state);
    }
    model.taskEnded();
    const isWriting = this.#isWriting;
    expectEqual('waits for nothing', state.waiting === null, isWriting || state.phase === 'done');
    const attribute = this.simulation.attributes.get(SEARCH_ATTRIBUTE.waitingFor) ?? null;
    const lasting = SHOWN_WAITING_FOR.find((what) => what === state.waiting?.for) ?? null;
    // While a write is under way, the attribute keeps what it waited for.
    if (!isWriting) expectEqual('what it waits for, as a search attribute', attribute, lasting);
    if (state.unknown && state.unknown.since !== this.#decidedFor) this.#planDecision(state.unknown.since);
  }

  #checkPhase(state: JobState): void {
    expectEqual('phase', state.phase, this.#monitor.model.phase);
    const { attributes } = this.simulation;
    expectEqual('phase, as a search attribute', attributes.get(SEARCH_ATTRIBUTE.phase), state.phase);
    expectEqual('link, as a search attribute', attributes.get(SEARCH_ATTRIBUTE.prLink) ?? null, state.prLink);
  }

  #planDecision(since: string): void {
    this.#decidedFor = since;
    const decision = this.#monitor.nextDecision();
    const { queue } = this.simulation;
    if (decision) queue.add(this.#now + decision.afterMs, 'message', () => this.#decide(decision, since));
    else if (this.#scenario.decideWithin === null) {
      queue.add(this.#now + 600_000, 'message', () => this.#act({ kind: 'cancel', at: 0 }));
    }
  }

  #decide(decision: Decision, since: string): void {
    const { unknown, phase } = this.simulation.query<JobState>('jobState');
    const action = fittingAction(decision, unknown?.kind);
    const isCurrent = unknown?.since === since && phase !== 'done';
    if (action === 'adopt' && isCurrent) return this.#adopt(since);
    const input = { action, since, ...(action === 'adopt' ? { jobId: 'job-1' } : {}) };
    if (isCurrent) this.#monitor.record(() => this.#monitor.model.resolved(this.#now, action));
    this.simulation.update('resolveUnknown', `resolve-${since}`, input).then(
      () => {
        // The next write may become unknown at this very moment.
        if (isCurrent) this.#decidedFor = null;
        else this.#monitor.fail(new BrokenPromise('a late decision was accepted'));
      },
      (error: unknown) => isCurrent && this.#monitor.fail(error),
    );
  }

  /** The job is read first: if it does not exist, or can't be read, another decision is needed. */
  #adopt(since: string): void {
    const { model } = this.#monitor;
    this.#monitor.record(() => model.adoptAsked(this.#now));
    const input = { action: 'adopt', since, jobId: 'job-1' };
    this.simulation.update('resolveUnknown', `resolve-${since}-${this.#now}`, input).then(
      () => {
        this.#decidedFor = null;
        this.#monitor.record(() => model.resolved(this.#now, 'adopt'));
      },
      (error: unknown) => {
        if ((error as { type?: string }).type !== 'InvalidInput') this.#monitor.fail(error);
        this.#monitor.record(() => model.adoptRefused());
        this.#decidedFor = null;
      },
    );
  }

  #end(end: End): void {
    const state = this.simulation.query<JobState>('jobState');
    const result = end.kind === 'completed' ? (end.result as AgentJobResult) : null;
    this.#monitor.ended(this.#now, verdictOf(end), state, result);
    const verdict = verdictOf(end) === 'canceled' ? 'Canceled' : verdictOf(end);
    const outcome = this.simulation.attributes.get(SEARCH_ATTRIBUTE.outcome);
    this.#monitor.record(() => expectEqual('outcome, as a search attribute', outcome, verdict));
    this.#monitor.record(() => expectEqual('outcome', state.outcome, verdict));
    const { sureReads, decisions } = this.#monitor.model;
    const told = state.decisions.map(({ action }) => action);
    this.#monitor.record(() => expectEqual('decisions', told, decisions));
    if (result && sureReads !== null) this.#monitor.record(() => expectEqual('polls', result.polls, sureReads));
  }
}

function activitiesOf(upstream: Upstream, clock: () => number): Record<string, never> {
  const shutdownSignal = new AbortController().signal;
  const dependencies = { upstream, shutdownSignal, metrics: noMetrics, machine: { monotonic: clock, wall: clock } };
  return createJobActivities(dependencies) as unknown as Record<string, never>;
}

function isConflict(error: unknown): boolean {
  return (error as ApplicationFailure).type === 'FollowUpConflict';
}

function isRefusedAtEnd(error: unknown): boolean {
  return ((error as ApplicationFailure).details?.[0] as { field?: string } | undefined)?.field === 'job';
}

function verdictOf(end: End): string {
  if (end.kind === 'completed') return (end.result as AgentJobResult).outcome;
  return end.kind === 'canceled' ? 'canceled' : ((end.error as { type?: string }).type ?? 'unknown failure');
}
