/** Plays a scenario on the simulated server, tells the model all that happens, and compares. */
import { vi } from 'vitest';
import { createActivities, type WriteResult } from '../../src/activities/index.js';
import type { AgentJobInput, AgentJobResult, JobState } from '../../src/contract.js';
import { noMetrics } from '../../src/activities/metrics.js';
import type { Upstream } from '../../src/upstream/upstream.js';
import { expectEqual, fatesOf, logged } from './comparison.js';
import { BrokenPromise, ContractModel } from './contract-model.js';
import { inputOf, modelledUpstream } from './modelled-upstream.js';
import { HORIZON_MS, type Action, type Decision, type Scenario } from './scenario.js';
import { dieHere } from './simulated-activity.js';
import { Simulation, type End } from './simulation.js';

type Workflow = (input: AgentJobInput) => Promise<AgentJobResult>;

/** Rejects with what was broken. */
export async function rehearse(scenario: Scenario, agentJob: Workflow): Promise<void> {
  const rehearsal = new Rehearsal(scenario, agentJob);
  const clocks = [vi.spyOn(Date, 'now'), vi.spyOn(performance, 'now')];
  for (const clock of clocks) clock.mockImplementation(() => rehearsal.simulation.now);
  try {
    await rehearsal.play();
  } finally {
    for (const clock of clocks) clock.mockRestore();
  }
}

class Rehearsal {
  readonly simulation: Simulation;
  readonly #scenario: Scenario;
  readonly #model: ContractModel;
  readonly #decisions: Decision[];
  #decidedFor: string | null = null;
  #prompts = 0;
  #broken: unknown = null;
  readonly #log: string[] = [];
  #waiting = 0;

  constructor(scenario: Scenario, workflow: Workflow) {
    this.#scenario = scenario;
    this.#decisions = [...scenario.decisions];
    this.simulation = new Simulation({
      workflow: workflow as never,
      tasksPerRun: scenario.tasksPerRun,
      isBatching: scenario.isBatching,
      isRepeated: scenario.isRepeated,
      onTask: () => this.#note(() => this.#look()),
      onContinued: () => this.#note(() => this.#model.continuedAsNew(this.#now)),
      onEnd: (end) => this.#note(() => this.#end(end)),
      onActivityResult: (name, result) => this.#note(() => this.#learn(name, result as WriteResult)),
    });
    const startedAt = this.simulation.now;
    this.#model = logged(new ContractModel(scenario, startedAt), (what) =>
      this.#log.push(`${(this.#now - startedAt) / 1_000} s ${what}`),
    );
    const upstream = modelledUpstream(scenario, {
      arrive: () => Promise.resolve(),
      wait: (ms) => new Promise((resolve) => this.simulation.agenda.add(this.#now + ms, 'outside', () => resolve())),
      die: () => {
        dieHere();
        hire();
      },
      sendBegan: (kind, prompt) => this.#note(() => this.#model.sendBegan(this.#now, kind, prompt)),
      readBegan: () => this.#note(() => this.#model.readBegan(this.#now)) ?? 0,
      readEnded: (...read) => this.#note(() => this.#model.readEnded(this.#now, ...read)),
    });
    const hire = () => {
      this.simulation.activities = newWorker(upstream, () => this.#now);
    };
    hire();
  }

  async play(): Promise<void> {
    const { agenda } = this.simulation;
    for (const action of this.#scenario.actions) agenda.add(this.#now + action.at, 'message', () => this.#act(action));
    agenda.add(this.#now + HORIZON_MS, 'message', () => this.#act({ kind: 'cancel', at: 0 }));
    await this.simulation.play(inputOf(this.#scenario));
    if (this.#broken) throw this.#broken;
    if (this.simulation.bug) throw this.simulation.bug;
    if (!this.simulation.end) throw new BrokenPromise('the run stands still');
    if (this.#waiting > 0) throw new BrokenPromise(`${this.#waiting} updates were never answered`);
  }

  get #now(): number {
    return this.simulation.now;
  }

  #act(action: Action): void {
    switch (action.kind) {
      case 'signal':
      case 'update': {
        const prompt = `${action.id} ${++this.#prompts}`;
        if (action.kind === 'signal') {
          this.#note(() => this.#model.asked(this.#now, action.id, prompt));
          this.simulation.signal('followUp', { id: action.id, prompt });
        } else this.#update(action.id, prompt);
        return;
      }
      case 'malformed':
        return this.simulation.signal('followUp', { id: 'malformed', prompt: '' });
      case 'pollNow':
        this.#note(() => this.#model.pollNow(this.#now));
        return this.simulation.signal('pollNow', undefined);
      case 'cancel':
        this.#note(() => this.#model.cancelRequested(this.#now));
        return this.simulation.cancel();
    }
  }

  #update(id: string, prompt: string): void {
    this.#waiting += 1;
    // Its answer may be there before the model could be told of the question.
    this.#note(() => this.#model.asked(this.#now, id, prompt));
    this.simulation.update('sendFollowUp', `update-${this.#prompts}`, { id, prompt }).then(
      (answer) => {
        this.#waiting -= 1;
        const { state } = answer as { state: 'queued' };
        this.#note(() => this.#model.answered(this.#now, id, state));
      },
      (error: unknown) => (this.#broken ??= error),
    );
  }

  #learn(name: string, result: WriteResult): void {
    if (name === 'watchJob') return this.#model.readReached();
    if (name === 'awaitTurn' || name === 'readJob') return;
    const status = result.kind === 'accepted' && result.job?.status === 'failed' ? 'failed' : null;
    const outcome = result.kind === 'accepted' && status ? 'acceptedTerminal' : result.kind;
    const retryAfterMs = result.kind === 'throttled' ? result.retryAfterMs : undefined;
    this.#model.sendEnded(this.#now, outcome, status, retryAfterMs);
  }

  /** Compares what a query shows after each workflow task. */
  #look(): void {
    if (this.simulation.end || this.#broken) return;
    const state = this.simulation.query<JobState>('jobState');
    if (!state.unknown) this.#model.nothingUnknown(this.#now);
    const shown = fatesOf(state.followUps);
    for (const { id, state: fate } of shown)
      if (fate === 'unknown' && !state.unknown) this.#model.gaveUp(this.#now, id);
    if (state.phase !== 'done') expectEqual('follow-ups', shown, this.#model.followUps);
    const { unknownSince } = this.#model;
    const since = unknownSince === null ? null : new Date(unknownSince).toISOString();
    // What ends at this very moment may be shown for the last time.
    const { decideWithin } = this.#scenario;
    const isEnding = state.unknown && Date.parse(state.unknown.since) + (decideWithin ?? Infinity) === this.#now;
    if (state.phase !== 'done' && !isEnding) expectEqual('unknown', state.unknown?.since ?? null, since);
    const isWriting = this.simulation.pending.some((name) => name === 'createJob' || name === 'sendMessage');
    expectEqual('waits for nothing', state.waiting === null, isWriting || state.phase === 'done');
    if (state.unknown && state.unknown.since !== this.#decidedFor) this.#think(state.unknown.since);
  }

  #think(since: string): void {
    this.#decidedFor = since;
    const decision = this.#decisions.shift();
    const { agenda } = this.simulation;
    if (decision) agenda.add(this.#now + decision.afterMs, 'message', () => this.#decide(decision, since));
    else if (this.#scenario.decideWithin === null) {
      agenda.add(this.#now + 600_000, 'message', () => this.#act({ kind: 'cancel', at: 0 }));
    }
  }

  #decide({ action }: Decision, since: string): void {
    const state = this.simulation.query<JobState>('jobState');
    const kind = state.unknown?.kind;
    const fits = action === 'adopt' ? kind === 'create' : action === 'delivered' ? kind === 'followUp' : true;
    const chosen = fits ? action : kind === 'create' ? 'adopt' : 'delivered';
    const isAccepted = state.unknown?.since === since;
    if (chosen === 'adopt' && isAccepted) return this.#adopt(since);
    const input = { action: chosen, since, ...(chosen === 'adopt' ? { jobId: 'job-1' } : {}) };
    if (isAccepted) this.#note(() => this.#model.resolved(this.#now, chosen));
    this.simulation.update('resolveUnknown', `resolve-${since}`, input).then(
      () => isAccepted || (this.#broken ??= new BrokenPromise('a late decision was accepted')),
      (error: unknown) => isAccepted && (this.#broken ??= error),
    );
  }

  /** The job is read first: where that finds none, or nobody can tell, somebody has to think again. */
  #adopt(since: string): void {
    this.#note(() => this.#model.adoptAsked(this.#now));
    const input = { action: 'adopt', since, jobId: 'job-1' };
    this.simulation.update('resolveUnknown', `resolve-${since}-${this.#now}`, input).then(
      () => this.#note(() => this.#model.resolved(this.#now, 'adopt')),
      (error: unknown) => {
        if ((error as { type?: string }).type !== 'InvalidInput') this.#broken ??= error;
        this.#note(() => this.#model.adoptRefused());
        this.#decidedFor = null;
      },
    );
  }

  #end(end: End): void {
    const state = this.simulation.query<JobState>('jobState');
    const verdict = verdictOf(end);
    this.#model.ended(this.#now, verdict);
    expectEqual('follow-ups at the end', fatesOf(state.followUps), this.#model.followUps);
    expectEqual('used ids', state.usedFollowUpIds, this.#model.usedIds);
    expectEqual('phase', state.phase, 'done');
    if (end.kind !== 'completed') return;
    const result = end.result as AgentJobResult;
    expectEqual('follow-ups of the result', result.followUps, state.followUps);
    if (this.#model.sureReads !== null) expectEqual('polls', result.polls, this.#model.sureReads);
  }

  #note<T>(tell: () => T): T | undefined {
    if (this.#broken) return undefined;
    try {
      return tell();
    } catch (error) {
      this.#broken =
        error instanceof BrokenPromise ? new BrokenPromise(`${error.message}\n${this.#log.join('\n')}`) : error;
      this.simulation.bug = error;
      return undefined;
    }
  }
}

function newWorker(upstream: Upstream, laneClock: () => number): Record<string, never> {
  const shutdownSignal = new AbortController().signal;
  return createActivities({ upstream, shutdownSignal, metrics: noMetrics, laneClock }) as unknown as Record<
    string,
    never
  >;
}

function verdictOf(end: End): string {
  if (end.kind === 'completed') return (end.result as AgentJobResult).outcome;
  return end.kind === 'canceled' ? 'canceled' : ((end.error as { type?: string }).type ?? 'unknown failure');
}
