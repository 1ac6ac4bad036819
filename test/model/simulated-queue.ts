/**
 * The queues of a scenario, as its job meets them: they are joined, answer with a place, and give turns as the scenario
 * says, without a budget. It checks that each turn is used once.
 */
import type { JoinRequest, QueuePlace, RequestReport, Turn } from '../../src/contract.js';
import { BrokenPromise } from './polls-model.js';
import type { QueueAnswer } from './scenario.js';

interface QueueHost {
  now(): number;
  /** Has something happen after a time, as a message for the workflow. */
  later(ms: number, happen: () => void): void;
  /** The turn reaches the workflow. */
  giveTurn(turn: Pick<Turn, 'id' | 'until'>): void;
  fail(error: unknown): void;
}

const IN_TIME: QueueAnswer = { kind: 'joined', turns: [{ afterMs: 1_000, validMs: 60_000 }] };

export class SimulatedQueue {
  readonly #answers: QueueAnswer[];
  readonly #host: QueueHost;
  readonly #used = new Set<string>();
  readonly #accepted = new Set<string>();
  #isRunning: boolean;
  #turns = 0;
  #answer: QueueAnswer = IN_TIME;
  /** When a worker last met a queue that could not be asked, or did not answer. */
  #failedAt = -Infinity;

  constructor(answers: readonly QueueAnswer[], isRunning: boolean, host: QueueHost) {
    this.#answers = [...answers];
    this.#isRunning = isRunning;
    this.#host = host;
  }

  /** What the activities' client offers as `workflow`. */
  get client() {
    return {
      signalWithStart: async (_type: string, { signalArgs: [request] }: { signalArgs: [JoinRequest] }) =>
        this.#join(request),
      getHandle: () => ({
        query: async () => this.#place(),
        signal: async (_signal: unknown, report: RequestReport) => this.#report(report),
        describe: async () => ({ status: { name: this.#isRunning ? 'RUNNING' : 'COMPLETED' } }),
      }),
    };
  }

  /** A write is sent, with the turn that its worker was given if it still holds. */
  sent(turn: string | undefined): void {
    if (turn === undefined) {
      const isHeld = this.#isRunning && this.#failedAt !== this.#host.now();
      if (isHeld) throw new BrokenPromise('a write is sent without a turn, though a queue orders it');
    } else if (this.#used.has(turn)) throw new BrokenPromise(`the turn ${turn} is used twice`);
    else this.#used.add(turn);
  }

  #join({ report }: JoinRequest): void {
    this.#answer = this.#answers.shift() ?? IN_TIME;
    if (this.#answer.kind !== 'joined') this.#failedAt = this.#host.now();
    if (this.#answer.kind === 'unreachable') throw new Error('the server does not confirm it');
    this.#isRunning = true;
    if (report) this.#report(report);
    for (const { afterMs, validMs } of this.#answer.turns) {
      const id = `turn ${++this.#turns}`;
      const until = this.#host.now() + afterMs + validMs;
      this.#host.later(afterMs, () => this.#host.giveTurn({ id, until }));
    }
  }

  #place(): QueuePlace | null {
    const { kind, turns, expectedInMs } = this.#answer;
    if (kind === 'silent') throw new Error('the queue does not answer');
    if (turns.some(({ afterMs }) => afterMs === 0)) return null;
    const expectedAt = new Date(this.#host.now() + (expectedInMs ?? 0)).toISOString();
    return { for: 'turn', position: 3, ...(expectedInMs !== undefined && { expectedAt }) };
  }

  #report({ turn, outcome }: RequestReport): void {
    if (turn === null || outcome !== 'accepted') return;
    if (this.#accepted.has(turn)) this.#host.fail(new BrokenPromise(`the turn ${turn} is reported accepted twice`));
    this.#accepted.add(turn);
  }
}
