/** Plays a scenario on a real Temporal server whose time is skipped, tells the model all that happens, and compares the end. */
import {
  WorkflowFailedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
  type WorkflowHandle,
} from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import type { WriteResult } from '../../src/activities/index.js';
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
import { expectEqual, fatesOf, logged } from './comparison.js';
import { BrokenPromise, ContractModel } from './contract-model.js';
import { inputOf, modelledUpstream } from './modelled-upstream.js';
import type { Action, Decision, Scenario } from './scenario.js';
import type { Stage } from './stage.js';

/** A busy machine lets the server's clock run on while nothing happens; its attempts don't know their time, so the last look may be late. */
const TOLERANCE = { slack: 8_000, lateness: 6 * 60_000 };
/** Between looks at a job for which nothing is planned. */
const LOOK_MS = { first: 10_000, longest: 10 * 60_000 };
const MOST_LOOKS = 150;

/** Rejects with what was broken. */
export async function perform(scenario: Scenario, stage: Stage): Promise<void> {
  const performance = new Performance(playable(scenario), stage);
  await performance.play();
}

/** Without what needs a clock of one's own: calls take no time, workers don't die, decisions don't race with their time limit. */
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

class Performance {
  readonly #scenario: Scenario;
  readonly #stage: Stage;
  readonly #environment: TestWorkflowEnvironment;
  readonly #decisions: Decision[];
  readonly #log: string[] = [];
  readonly #updates: Promise<void>[] = [];
  #model!: ContractModel;
  #handle!: WorkflowHandle<typeof agentJob>;
  #prompts = 0;
  /** The server's time at the last call of the upstream; an attempt's own `scheduled` time is that of the one before, here. */
  #callAt = 0;
  #broken: unknown = null;

  constructor(scenario: Scenario, stage: Stage) {
    this.#scenario = scenario;
    this.#stage = stage;
    this.#environment = stage.environment;
    this.#decisions = [...scenario.decisions];
  }

  async play(): Promise<void> {
    const startedAt = await this.#now();
    this.#model = logged(new ContractModel(this.#scenario, startedAt, TOLERANCE), (what) => this.#log.push(what));
    this.#stage.upstream = modelledUpstream(this.#scenario, {
      arrive: async () => void (this.#callAt = await this.#now()),
      wait: () => Promise.resolve(),
      die: () => {},
      sendBegan: (kind, prompt) => this.#note(() => this.#model.sendBegan(this.#callAt, kind, prompt)),
      readBegan: () => this.#note(() => this.#model.readBegan(this.#callAt)) ?? 0,
      readEnded: (...read) => this.#note(() => this.#model.readEnded(this.#callAt, ...read)),
    });
    this.#stage.onWritten = (result) => this.#note(() => this.#learn(result));
    this.#stage.onReadToAdopt = ({ kind }) =>
      this.#note(() => (kind === 'found' ? this.#model.resolved(this.#callAt, 'adopt') : this.#model.adoptRefused()));
    const { tasksPerRun } = this.#scenario;
    const memo = tasksPerRun < 1e6 ? { eventsPerRun: tasksPerRun * 5 } : {};
    this.#handle = await this.#stage.start(inputOf(this.#scenario), { memo });
    let at = 0;
    for (const action of this.#scenario.actions) {
      if (action.at > at) await this.#environment.sleep(action.at - at);
      at = Math.max(at, action.at);
      if (await this.#isOver()) break;
      await this.#act(action);
    }
    await this.#watch();
    await this.#compare();
  }

  #now(): Promise<number> {
    return this.#environment.currentTimeMs();
  }

  async #isOver(): Promise<boolean> {
    const { status } = await this.#handle.describe();
    return this.#broken !== null || (status.name !== 'RUNNING' && status.name !== 'CONTINUED_AS_NEW');
  }

  async #act(action: Action): Promise<void> {
    const now = await this.#now();
    switch (action.kind) {
      case 'signal':
      case 'update': {
        const prompt = `${action.id} ${++this.#prompts}`;
        this.#note(() => this.#model.asked(now, action.id, prompt));
        const input = { id: action.id, prompt };
        const asked = action.kind === 'signal' ? this.#handle.signal(followUpSignal, input) : this.#update(input);
        return asked.catch(() => this.#note(() => this.#model.neverAsked(action.id, prompt)));
      }
      case 'malformed':
        return this.#handle.signal(followUpSignal, { id: 'malformed', prompt: '' }).catch(() => {});
      case 'pollNow':
        this.#note(() => this.#model.pollNow(now));
        return this.#handle.signal(pollNowSignal).catch(() => {});
      case 'cancel':
        return this.#handle.cancel().then(() => this.#note(() => this.#model.cancelRequested(now)), unlessOver);
    }
  }

  /** Resolves when the run has taken the update; its answer may take days. */
  async #update(input: { id: string; prompt: string }): Promise<void> {
    const updateId = `update-${this.#prompts}`;
    const update = await this.#handle.startUpdate(sendFollowUpUpdate, {
      args: [input],
      updateId,
      waitForStage: 'ACCEPTED',
    });
    this.#updates.push(
      update.result().then(
        ({ state }) => this.#note(() => this.#model.answered(0, input.id, state)),
        (error: unknown) => this.#note(() => unlessForgotten(error)),
      ),
    );
  }

  #learn(result: WriteResult): void {
    const status = result.kind === 'accepted' && result.job?.status === 'failed' ? 'failed' : null;
    const outcome = result.kind === 'accepted' && status ? 'acceptedTerminal' : result.kind;
    const retryAfterMs = result.kind === 'throttled' ? result.retryAfterMs : undefined;
    this.#model.sendEnded(this.#callAt, outcome, status, retryAfterMs);
  }

  /** Lets time pass until the run is over, and decides what is unknown meanwhile. */
  async #watch(): Promise<void> {
    let lookMs = LOOK_MS.first;
    for (let looks = 0; !(await this.#isOver()); looks++) {
      const { unknown } = await this.#handle.query(jobStateQuery);
      if (looks === MOST_LOOKS) await this.#act({ kind: 'cancel', at: 0 });
      if (unknown && this.#scenario.decideWithin === null) await this.#decide(unknown.kind, unknown.since);
      else {
        await this.#environment.sleep(lookMs);
        lookMs = Math.min(2 * lookMs, LOOK_MS.longest);
      }
    }
  }

  async #decide(kind: 'create' | 'followUp', since: string): Promise<void> {
    const decision = this.#decisions.shift();
    if (!decision) return this.#act({ kind: 'cancel', at: 0 });
    if (decision.afterMs > 0) await this.#environment.sleep(decision.afterMs);
    const fits = decision.action !== (kind === 'create' ? 'delivered' : 'adopt');
    const action = fits ? decision.action : kind === 'create' ? 'adopt' : 'delivered';
    const now = await this.#now();
    if (action === 'adopt') return this.#adopt(now, since);
    this.#note(() => this.#model.resolved(now, action));
    await this.#handle.executeUpdate(resolveUnknownUpdate, { args: [{ since, action }] }).catch(unlessForgotten);
  }

  /** The run reads the job first, and refuses where that finds none. */
  async #adopt(now: number, since: string): Promise<void> {
    this.#note(() => this.#model.adoptAsked(now));
    const input = { since, action: 'adopt', jobId: 'job-1' } as const;
    await this.#handle.executeUpdate(resolveUnknownUpdate, { args: [input] }).catch((error: unknown) => {
      if (!(error instanceof WorkflowUpdateFailedError)) unlessForgotten(error);
    });
  }

  async #compare(): Promise<void> {
    if (this.#broken) throw this.#broken;
    const end = await this.#handle.result().then(
      (result) => ({ verdict: result.outcome, result }),
      (error: unknown) => ({ verdict: verdictOf(error), result: null as AgentJobResult | null }),
    );
    const { closeTime } = await this.#handle.describe();
    const state = await this.#handle.query(jobStateQuery);
    await Promise.all(this.#updates);
    this.#note(() => {
      this.#model.ended(closeTime?.getTime() ?? 0, end.verdict);
      expectEqual('phase', state.phase, 'done');
      expectEqual('follow-ups', fatesOf(state.followUps), this.#model.followUps);
      expectEqual('used ids', state.usedFollowUpIds, this.#model.usedIds);
      if (end.result) expectEqual('follow-ups of the result', end.result.followUps, state.followUps);
    });
    if (this.#broken) throw this.#broken;
  }

  #note<T>(tell: () => T): T | undefined {
    if (this.#broken) return undefined;
    try {
      return tell();
    } catch (error) {
      const what = error instanceof Error ? error.message : String(error);
      this.#broken = new BrokenPromise(`${what}\n${this.#log.join('\n')}`);
      return undefined;
    }
  }
}

/** The run may end after the look that found it under way. */
function unlessOver(error: unknown): void {
  if (!(error instanceof WorkflowNotFoundError)) throw error;
}

function verdictOf(error: unknown): string {
  const cause = error instanceof WorkflowFailedError ? error.cause : error;
  if (cause instanceof CancelledFailure) return 'canceled';
  return cause instanceof ApplicationFailure ? (cause.type ?? 'failure') : String(cause);
}
