import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import type { AgentJobResult, FollowUpStatus, JobState } from '../../src/contract.js';
import { ContractModel } from './contract-model.js';
import type { UpstreamEvents } from './modelled-upstream.js';
import { BrokenPromise } from './polls-model.js';
import type { Decision, Scenario } from './scenario.js';

interface MonitorOptions {
  scenario: Scenario;
  /** Milliseconds since 1970, on the clock of the scenario's runner. */
  now: () => number;
  startedAt: number;
  /** Called with the first error. */
  onBroken?: (error: unknown) => void;
}

/** Passes what happens to the model, and keeps a log of it and the first error. */
export class ModelMonitor {
  readonly model: ContractModel;
  /** The first broken promise, or an error of the runner; after it nothing is recorded. */
  broken: unknown = null;
  /** The model's calls, each with its time. */
  readonly log: string[] = [];
  readonly #options: MonitorOptions;
  readonly #decisions: Decision[];
  #prompts = 0;

  constructor(options: MonitorOptions) {
    this.#options = options;
    const { scenario, startedAt, now } = options;
    this.#decisions = [...scenario.decisions];
    this.model = logged(new ContractModel(scenario, startedAt), (call) =>
      this.log.push(`${(now() - startedAt) / 1_000} s ${call}`),
    );
  }

  /** What the upstream reports. */
  get upstreamEvents(): UpstreamEvents {
    const { now } = this.#options;
    return {
      sendBegan: (kind, prompt) => this.record(() => this.model.sendBegan(now(), kind, prompt)),
      sendAnswered: (record) => this.record(() => this.model.sendAnswered(now(), record)),
      readBegan: () => this.record(() => this.model.readBegan(now())) ?? 0,
      readEnded: (...read) => this.record(() => this.model.readEnded(now(), ...read)),
    };
  }

  record<T>(tell: () => T): T | undefined {
    if (this.broken !== null) return undefined;
    try {
      return tell();
    } catch (error) {
      this.fail(error);
      return undefined;
    }
  }

  fail(error: unknown): void {
    const what = error instanceof Error ? error.message : String(error);
    this.broken ??= new BrokenPromise(`${what}\n${this.log.join('\n')}`, { cause: error });
    this.#options.onBroken?.(this.broken);
  }

  /** The prompt of a follow-up: the id's, or one that no other message has. */
  promptOf({ id, isOther = false }: { id: string; isOther?: boolean }): string {
    return isOther ? `${id} ${++this.#prompts}` : id;
  }

  nextDecision(): Decision | undefined {
    return this.#decisions.shift();
  }

  writeEnded(result: WriteOutcome): void {
    const { retryAfterMs, queued } = result as Partial<WriteOutcome & { kind: 'throttled' }>;
    this.record(() => this.model.sendEnded(this.#options.now(), result.kind, { retryAfterMs, queued }));
  }

  /** Compares the end of the run; `result` is null if it failed or was cancelled. */
  ended(at: number, verdict: string, state: JobState, result: AgentJobResult | null): void {
    this.record(() => {
      this.model.ended(at, verdict, result && shownPolls(result));
      this.model.shown(shownPolls(state));
      expectEqual('phase', state.phase, 'done');
      expectEqual('follow-ups at the end', statesOf(state.followUps), this.model.followUps);
      expectEqual('used ids', state.usedFollowUpIds, this.model.usedIds);
      if (result) expectEqual('follow-ups of the result', result.followUps, state.followUps);
    });
  }
}

/** The action that the decision stands for; `adopt` is for creates alone, `delivered` for follow-ups alone. */
export function fittingAction({ action }: Decision, kind: 'create' | 'followUp' | undefined): Decision['action'] {
  const isCreate = kind === 'create';
  if (action === 'adopt' || action === 'delivered') return isCreate ? 'adopt' : 'delivered';
  return action;
}

/** Throws if the actual value is not what the model expects. */
export function expectEqual(what: string, actual: unknown, expected: unknown): void {
  const [a, e] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (a !== e) throw new BrokenPromise(`${what}: ${a} instead of ${e}`);
}

/** What a state or a result shows of the polls. */
export function shownPolls<T extends JobState | AgentJobResult>({ job, ...others }: T) {
  return { ...others, job: job && { status: job.status, prLink: job.prLink } };
}

/** Follow-ups without their errors. */
export function statesOf(followUps: FollowUpStatus[]): { id: string; state: string }[] {
  return followUps.map(({ id, state }) => ({ id, state }));
}

/** The same object, with a callback for each call. */
function logged<T extends object>(target: T, log: (call: string) => void): T {
  return new Proxy(target, {
    get(_, name) {
      const value = Reflect.get(target, name) as unknown;
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        log(
          `${String(name)}(${args
            .slice(1)
            .map((arg) => JSON.stringify(arg))
            .join(', ')})`,
        );
        return value.apply(target, args) as unknown;
      };
    },
  });
}
