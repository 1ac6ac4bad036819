/**
 * A simulated Temporal server and worker: the workflow's code runs in this process, on a clock that jumps from event to
 * event. So a job of days takes milliseconds. Tests replace `@temporalio/workflow` by `simulatedWorkflow`.
 */
import { ActivityFailure, ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { runAttempt, type Attempt } from './simulated-activity.js';

export type Handler = (input: unknown) => unknown;
export type Validator = (input: unknown) => void;
type Activities = Record<string, (input: never) => Promise<unknown>>;
type Workflow = (input: never) => Promise<unknown>;

/** What a cancellation scope offers to the calls made in it. */
interface Scope {
  onCancel(cancel: () => void): void;
}

/** A `condition` that is not true yet. */
interface Blocked {
  isTrue: () => boolean;
  resolve: (value: boolean) => void;
}

/** One run of the workflow: continue-as-new begins another. */
interface Run {
  id: string;
  continued: string | undefined;
  startedAt: number;
  memo: Record<string, unknown> | undefined;
  tasks: number;
  blocked: Set<Blocked>;
  handlers: Map<string, { handle: Handler; validate?: Validator | undefined }>;
  handling: number;
  cancel: (error: Error) => void;
  cancelRequested: Promise<never>;
}

/** Thrown by the workflow's code to continue as new. */
export class ContinueAsNew extends Error {
  readonly input: unknown;
  readonly memo: Record<string, unknown>;
  constructor(input: unknown, memo: Record<string, unknown>) {
    super('continue as new');
    this.input = input;
    this.memo = memo;
  }
}

export type End = { kind: 'completed'; result: unknown } | { kind: 'failed'; error: unknown } | { kind: 'canceled' };

interface SimulationOptions {
  workflow: Workflow;
  /** Workflow tasks of a run after which the server suggests to continue as new. */
  tasksPerRun: number;
  /** Events of one moment reach the workflow in one task. */
  isBatching: boolean;
  /** The first run is one that the server started again. */
  isRepeated: boolean;
  /** After each workflow task. */
  onTask: () => void;
  onContinued: () => void;
  onEnd: (end: End) => void;
  /** An activity's result reaches the workflow. */
  onActivityResult: (name: string, result: unknown, activity: number) => void;
  /** Another attempt of it will follow. */
  onActivityGoesOn: (activity: number) => void;
  onActivityCancelled: (activity: number) => void;
}

/** The activities' heartbeat timeout: how long the server waits for a worker that died. */
const HEARTBEAT_TIMEOUT_MS = 30_000;
const FIRST_RETRY_MS = 1_000;

interface Event {
  at: number;
  /**
   * `message`: a signal, update or cancellation for the workflow; `job`: a timer or a result for it; `outside`: all
   * else.
   */
  kind: 'message' | 'job' | 'outside';
  happen: () => unknown;
}

const START = Date.parse('2026-01-01T00:00:00.000Z');

/** Future events by time; events of one moment keep the order in which they were added. */
class EventQueue {
  now = START;
  readonly #events: Event[] = [];

  add(at: number, kind: Event['kind'], happen: () => unknown): void {
    const event = { at: Math.max(at, this.now), kind, happen };
    let place = this.#events.length;
    while (place > 0 && this.#events[place - 1]!.at > event.at) place -= 1;
    this.#events.splice(place, 0, event);
  }

  /**
   * Moves the clock to the time of the next event and removes all events of that time; null if the queue is empty.
   */
  next(): Event[] | null {
    const at = this.#events[0]?.at;
    if (at === undefined) return null;
    this.now = at;
    const first = this.#events.findIndex((event) => event.at > at);
    return this.#events.splice(0, first < 0 ? this.#events.length : first);
  }
}

export class Simulation {
  /** The simulation that the workflow's code runs in. */
  static current: Simulation;
  /** Cancellation scopes that the workflow's code has entered, innermost last. */
  readonly scopes: Scope[] = [];
  readonly queue = new EventQueue();
  end: End | null = null;
  activities: Activities = {};
  /** What the activities' client offers as `workflow`. */
  workflowClient: unknown = undefined;
  /** An error in workflow code that is not a failure of the workflow. */
  bug: unknown = null;
  runs = 0;
  /** The search attributes by name: they outlive continue-as-new. */
  readonly attributes = new Map<string, unknown>();
  /** Activities that have neither ended nor been cancelled. */
  readonly pending: string[] = [];
  readonly #options: SimulationOptions;
  #run!: Run;
  #updateId: string | undefined;
  #ids = 0;
  #activities = 0;
  #next: (() => Promise<void>) | null = null;

  constructor(options: SimulationOptions) {
    this.#options = options;
    Simulation.current = this;
  }

  get now(): number {
    return this.queue.now;
  }

  get run(): Run {
    return this.#run;
  }

  get updateId(): string | undefined {
    return this.#updateId;
  }

  /** Runs the workflow from its start to its end. */
  async play(input: unknown): Promise<void> {
    await this.#begin(input, undefined, undefined);
    for (let events = this.queue.next(); events && !this.end && !this.bug; events = this.queue.next()) {
      await this.#deliver(events);
    }
  }

  uuid(): string {
    return `uuid-${++this.#ids}`;
  }

  /** Call it within an event of the queue. */
  signal(name: string, input: unknown): void {
    this.#run.handlers.get(name)?.handle(input);
  }

  /** Rejects with what the validator threw. */
  update(name: string, id: string, input: unknown): Promise<unknown> {
    const run = this.#run;
    const { handle, validate } = run.handlers.get(name)!;
    this.#updateId = id;
    try {
      validate?.(input);
      run.handling += 1;
      const answer = Promise.resolve(handle(input));
      void answer.finally(() => (run.handling -= 1)).catch(() => {});
      return answer;
    } catch (error) {
      return Promise.reject(error);
    } finally {
      this.#updateId = undefined;
    }
  }

  query<T>(name: string): T {
    return plain(this.#run.handlers.get(name)?.handle(undefined)) as T;
  }

  cancel(): void {
    this.#run.cancel(new CancelledFailure('cancelled'));
  }

  workflowInfo() {
    const { id, continued, startedAt, memo, tasks } = this.#run;
    return {
      workflowId: 'agent-job/model/1',
      runId: id,
      attempt: this.#options.isRepeated && continued === undefined ? 2 : 1,
      originalExecutionRunId: id,
      continuedFromExecutionRunId: continued,
      startTime: new Date(startedAt),
      memo,
      typedSearchAttributes: { get: ({ name }: { name: string }) => this.attributes.get(name) ?? undefined },
      continueAsNewSuggested: tasks >= this.#options.tasksPerRun,
      // As in a replay, the spans of a trace go nowhere.
      unsafe: { isReplaying: true },
    };
  }

  condition(isTrue: () => boolean, ms: number | undefined): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const run = this.#run;
      this.scopes.at(-1)?.onCancel(() => {
        run.blocked.delete(blocked);
        reject(new CancelledFailure('cancelled'));
      });
      if (isTrue()) return resolve(true);
      const blocked: Blocked = { isTrue, resolve };
      run.blocked.add(blocked);
      if (ms === undefined) return;
      this.queue.add(this.now + Math.max(1, ms), 'job', () => {
        if (run === this.#run && run.blocked.delete(blocked)) resolve(false);
      });
    });
  }

  startActivity(name: string, input: unknown): Promise<unknown> {
    const run = this.#run;
    const argument = plain(input) as never;
    const activity = (this.#activities += 1);
    const { onActivityResult, onActivityGoesOn, onActivityCancelled } = this.#options;
    this.pending.push(name);
    return new Promise((resolve, reject) => {
      let isOver = false;
      const over = (what: () => void) => {
        if (isOver || run !== this.#run) return;
        isOver = true;
        this.pending.splice(this.pending.indexOf(name), 1);
        what();
      };
      this.scopes.at(-1)?.onCancel(() =>
        over(() => {
          onActivityCancelled(activity);
          reject(cancelledActivity());
        }),
      );
      const attempt = async (number: number, details: unknown): Promise<void> => {
        if (isOver || run !== this.#run) return;
        const work = this.activities[name]!;
        const ids = { number, name, activity, runId: run.id };
        const made: Attempt = { ...ids, details, at: this.now, input: argument, isDead: false };
        const again = (ms: number, kept: unknown) =>
          this.queue.add(this.now + ms, 'outside', () => this.#detached(attempt(number + 1, kept)));
        made.die = () => {
          made.isDead = true;
          again(HEARTBEAT_TIMEOUT_MS + FIRST_RETRY_MS, made.details);
        };
        const outcome = await runAttempt(made, work, { input: argument, workflow: this.workflowClient });
        if (made.isDead) return;
        if ('retryMs' in outcome) {
          if (!isOver && run === this.#run) onActivityGoesOn(activity);
          return again(outcome.retryMs ?? FIRST_RETRY_MS, made.details);
        }
        this.queue.add(this.now, 'job', () =>
          over(() => {
            onActivityResult(name, outcome.result, activity);
            resolve(plain(outcome.result));
          }),
        );
      };
      this.queue.add(this.now, 'outside', () => this.#detached(attempt(1, undefined)));
    });
  }

  /** A signal to another workflow: a later task reports that it has arrived. */
  signalExternal(): Promise<void> {
    const run = this.#run;
    return new Promise((resolve) => {
      this.queue.add(this.now, 'job', () => run === this.#run && resolve());
    });
  }

  #detached(work: Promise<void>): void {
    work.catch((error: unknown) => (this.bug = error));
  }

  async #begin(input: unknown, memo: Record<string, unknown> | undefined, continued: string | undefined) {
    let cancel!: (error: Error) => void;
    const cancelRequested = new Promise<never>((_, reject) => (cancel = reject));
    cancelRequested.catch(() => {});
    this.#run = {
      id: `run-${++this.runs}`,
      continued,
      startedAt: this.now,
      memo: plain(memo) as Record<string, unknown> | undefined,
      tasks: 0,
      blocked: new Set(),
      handlers: new Map(),
      handling: 0,
      cancel,
      cancelRequested,
    };
    const run = this.#run;
    this.pending.length = 0;
    await this.#task(() => {
      this.#options.workflow(plain(input) as never).then(
        (result) => this.#ended(run, { kind: 'completed', result: plain(result) }),
        (error: unknown) => this.#threw(run, error),
      );
    });
  }

  #ended(run: Run, end: End): void {
    if (run !== this.#run) return;
    if (run.handling > 0) this.bug = new Error('the run ended and left an update without an answer');
    this.end = end;
    this.#options.onEnd(end);
  }

  #threw(run: Run, error: unknown): void {
    if (error instanceof ContinueAsNew) {
      if (run.handling > 0) this.bug = new Error('continue-as-new left an update without an answer');
      this.#options.onContinued();
      this.#next = () => this.#begin(error.input, error.memo, run.id);
    } else if (error instanceof CancelledFailure) this.#ended(run, { kind: 'canceled' });
    else if (error instanceof ApplicationFailure) this.#ended(run, { kind: 'failed', error });
    else this.bug = error;
  }

  async #deliver(events: ReturnType<EventQueue['next']> & object): Promise<void> {
    for (const { happen } of events.filter(({ kind }) => kind === 'outside')) {
      await happen();
      await settled();
    }
    const jobs = events.filter(({ kind }) => kind !== 'outside');
    const messages = jobs.filter(({ kind }) => kind === 'message');
    const others = jobs.filter(({ kind }) => kind === 'job');
    if (jobs.length === 0) return;
    if (this.#options.isBatching)
      await this.#task(...messages.map(({ happen }) => happen), ...others.map(({ happen }) => happen));
    else for (const { happen } of jobs) await this.#task(happen);
  }

  /** One workflow task: its jobs one after the other, then the conditions that they made true. */
  async #task(...jobs: (() => unknown)[]): Promise<void> {
    if (this.end || this.bug) return;
    const run = this.#run;
    run.tasks += 1;
    for (const job of jobs) {
      void job();
      this.#unblock(run);
    }
    do await settled();
    while (this.#unblock(run));
    // Queries go to the newest run of the chain, never to one that has just been continued.
    if (!this.#next) this.#options.onTask();
    const next = this.#next;
    this.#next = null;
    await next?.();
  }

  #unblock(run: Run): boolean {
    let any = false;
    for (let more = true; more;) {
      more = false;
      for (const blocked of run.blocked) {
        if (!blocked.isTrue()) continue;
        blocked.resolve(true);
        run.blocked.delete(blocked);
        any = more = true;
      }
    }
    return any;
  }
}

function cancelledActivity(): ActivityFailure {
  return new ActivityFailure('cancelled', 'pollJob', '1', 'CANCEL_REQUESTED', 'w', new CancelledFailure('cancelled'));
}

/** Resolves when all promise callbacks have run. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** The value after Temporal's JSON conversion. */
function plain(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}
