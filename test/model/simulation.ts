/**
 * A simulated Temporal server and worker: the workflow's code runs in this process, under the SDK's own activator, on a
 * clock that jumps from event to event. So a job of days takes milliseconds.
 */
import {
  ActivityFailure,
  CancelledFailure,
  defaultFailureConverter,
  defaultPayloadConverter,
  type Payload,
} from '@temporalio/common';
import { ActivatedRun, settled, valueOf, valuesOf, type Command, type Job, type Payloads } from './activated-run.js';
import { runAttempt, type Attempt } from './simulated-activity.js';

type Activities = Record<string, (input: never) => Promise<unknown>>;
type Workflow = (input: never) => Promise<unknown>;

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

/** An update that was not answered yet. */
interface Asked {
  resolve(answer: unknown): void;
  reject(error: unknown): void;
}

export class Simulation {
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
  #run!: ActivatedRun;
  /** Jobs of the next workflow task. */
  #jobs: Job[] = [];
  readonly #timers = new Set<number>();
  /** Ends an activity of this run, by its number in the run. */
  readonly #open = new Map<number, (what: () => void) => void>();
  readonly #updates = new Map<string, Asked>();
  #payloads: { memo: Payloads; attributes: Payloads } = { memo: {}, attributes: {} };
  #activities = 0;

  constructor(options: SimulationOptions) {
    this.#options = options;
  }

  get now(): number {
    return this.queue.now;
  }

  /** Runs the workflow from its start to its end. */
  async play(input: unknown): Promise<void> {
    try {
      await this.#begin([defaultPayloadConverter.toPayload(input)], undefined);
      for (let events = this.queue.next(); events && !this.end && !this.bug; events = this.queue.next()) {
        await this.#deliver(events);
      }
    } catch (error) {
      this.bug ??= error;
    }
  }

  /** Call it within an event of the queue, as the other messages. */
  signal(signalName: string, input: unknown): void {
    const signalWorkflow = { signalName, input: [defaultPayloadConverter.toPayload(input)] };
    this.#jobs.push({ variant: 'signalWorkflow', signalWorkflow });
  }

  /** Rejects with what the validator threw. */
  update(name: string, id: string, input: unknown): Promise<unknown> {
    const doUpdate = { id, protocolInstanceId: id, name, input: [defaultPayloadConverter.toPayload(input)] };
    this.#jobs.push({ variant: 'doUpdate', doUpdate: { ...doUpdate, runValidator: true } });
    return new Promise((resolve, reject) => this.#updates.set(id, { resolve, reject }));
  }

  query<T>(name: string): T {
    return this.#run.query(name) as T;
  }

  cancel(): void {
    this.#jobs.push({ variant: 'cancelWorkflow', cancelWorkflow: {} });
  }

  async #begin(input: Payload[], continued: string | undefined): Promise<void> {
    const { workflow, isRepeated } = this.#options;
    const runId = `run-${++this.runs}`;
    const attempt = isRepeated && continued === undefined ? 2 : 1;
    const start = { workflow, input, runId, continued, attempt, seed: this.runs, ...this.#payloads };
    this.#run = new ActivatedRun(start, this.now);
    this.pending.length = 0;
    this.#timers.clear();
    this.#open.clear();
    await this.#task();
  }

  /** One workflow task, with the jobs that have come. */
  async #task(): Promise<void> {
    const run = this.#run;
    const isContinueSuggested = run.tasks + 1 >= this.#options.tasksPerRun;
    let continued: Payload[] | null = null;
    // An activity whose cancellation is not waited for ends within the task.
    do {
      const commands = await run.task(this.#jobs.splice(0), { now: this.now, isContinueSuggested });
      for (const command of commands) continued = this.#carryOut(run, command) ?? continued;
      await settled();
    } while (this.#jobs.length > 0 && !this.end && !continued);
    this.#jobs = [];
    if ((this.end || continued) && this.#updates.size > 0) this.bug = new Error('an update was left without an answer');
    if (this.bug) return;
    // Queries go to the newest run of the chain, never to one that has just been continued.
    if (!continued) return this.#options.onTask();
    this.#options.onContinued();
    await this.#begin(continued, run.id);
  }

  /** Returns the input of the next run if the command begins one. */
  #carryOut(run: ActivatedRun, command: Command): Payload[] | null {
    const { startTimer, cancelTimer, scheduleActivity, requestCancelActivity, updateResponse } = command;
    if (startTimer) this.#startTimer(startTimer.seq!, millisecondsOf(startTimer.startToFireTimeout!));
    if (cancelTimer) this.#timers.delete(cancelTimer.seq!);
    if (scheduleActivity) {
      const { seq, activityType } = scheduleActivity;
      this.#startActivity(run, seq!, activityType!, valueOf(scheduleActivity.arguments?.[0]) as never);
    }
    if (requestCancelActivity) this.#cancelActivity(requestCancelActivity.seq!);
    if (updateResponse) this.#answer(updateResponse);
    // A later task reports that the signal has arrived.
    const seq = command.signalExternalWorkflowExecution?.seq;
    if (seq != null)
      this.#later(run, 0, { variant: 'resolveSignalExternalWorkflow', resolveSignalExternalWorkflow: { seq } });
    const attributes = command.upsertWorkflowSearchAttributes?.searchAttributes?.indexedFields as Payloads | undefined;
    if (attributes) {
      Object.assign(this.#payloads.attributes, attributes);
      for (const [name, value] of valuesOf(attributes)) this.attributes.set(name, value);
    }
    return this.#carryOutEnd(command);
  }

  #carryOutEnd(command: Command): Payload[] | null {
    const { completeWorkflowExecution: completed, failWorkflowExecution: failed } = command;
    if (completed) this.#ended({ kind: 'completed', result: valueOf(completed.result) });
    if (failed) this.#ended({ kind: 'failed', error: errorOf(failed.failure) });
    if (command.cancelWorkflowExecution) this.#ended({ kind: 'canceled' });
    const continued = command.continueAsNewWorkflowExecution;
    if (!continued) return null;
    this.#payloads.memo = continued.memo as Payloads;
    return continued.arguments as Payload[];
  }

  #ended(end: End): void {
    this.end = end;
    this.#options.onEnd(end);
  }

  #answer({ protocolInstanceId, rejected, completed }: NonNullable<Command['updateResponse']>): void {
    if (!rejected && !completed) return;
    const id = protocolInstanceId!;
    const asked = this.#updates.get(id);
    this.#updates.delete(id);
    if (rejected) asked?.reject(errorOf(rejected));
    else asked?.resolve(valueOf(completed));
  }

  #startTimer(seq: number, ms: number): void {
    const run = this.#run;
    this.#timers.add(seq);
    this.queue.add(this.now + Math.max(1, ms), 'job', () => {
      if (run === this.#run && this.#timers.delete(seq)) this.#jobs.push({ variant: 'fireTimer', fireTimer: { seq } });
    });
  }

  #later(run: ActivatedRun, ms: number, job: Job): void {
    this.queue.add(this.now + ms, 'job', () => run === this.#run && this.#jobs.push(job));
  }

  #cancelActivity(seq: number): void {
    const failure = defaultFailureConverter.errorToFailure(cancelledActivity(), defaultPayloadConverter);
    const result = { cancelled: { failure } };
    this.#open.get(seq)?.(() => this.#jobs.push({ variant: 'resolveActivity', resolveActivity: { seq, result } }));
  }

  #startActivity(run: ActivatedRun, seq: number, name: string, argument: never): void {
    const activity = (this.#activities += 1);
    const { onActivityResult, onActivityGoesOn, onActivityCancelled } = this.#options;
    this.pending.push(name);
    const isOpen = () => run === this.#run && this.#open.has(seq);
    const over = (what: () => void) => {
      if (!isOpen()) return;
      this.#open.delete(seq);
      this.pending.splice(this.pending.indexOf(name), 1);
      what();
    };
    this.#open.set(seq, (resolve) =>
      over(() => {
        onActivityCancelled(activity);
        resolve();
      }),
    );
    const attempt = async (number: number, details: unknown): Promise<void> => {
      if (!isOpen()) return;
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
        if (isOpen()) onActivityGoesOn(activity);
        return again(outcome.retryMs ?? FIRST_RETRY_MS, made.details);
      }
      const result = { completed: { result: defaultPayloadConverter.toPayload(outcome.result) } };
      this.queue.add(this.now, 'job', () =>
        over(() => {
          onActivityResult(name, outcome.result, activity);
          this.#jobs.push({ variant: 'resolveActivity', resolveActivity: { seq, result } });
        }),
      );
    };
    this.queue.add(this.now, 'outside', () => this.#detached(attempt(1, undefined)));
  }

  #detached(work: Promise<void>): void {
    work.catch((error: unknown) => (this.bug = error));
  }

  async #deliver(events: ReturnType<EventQueue['next']> & object): Promise<void> {
    for (const { happen } of events.filter(({ kind }) => kind === 'outside')) {
      await happen();
      await settled();
    }
    const messages = events.filter(({ kind }) => kind === 'message');
    const others = events.filter(({ kind }) => kind === 'job');
    const jobs = this.#options.isBatching ? [...messages, ...others] : events.filter(({ kind }) => kind !== 'outside');
    for (const { happen } of jobs) {
      if (this.end || this.bug) return;
      void happen();
      if (!this.#options.isBatching) await this.#taskIfAny();
    }
    await this.#taskIfAny();
  }

  async #taskIfAny(): Promise<void> {
    if (this.#jobs.length > 0 && !this.end && !this.bug) await this.#task();
  }
}

function cancelledActivity(): ActivityFailure {
  return new ActivityFailure('cancelled', 'pollJob', '1', 'CANCEL_REQUESTED', 'w', new CancelledFailure('cancelled'));
}

function errorOf(failure: unknown): unknown {
  return defaultFailureConverter.failureToError(failure as never, defaultPayloadConverter);
}

function millisecondsOf({ seconds, nanos }: { seconds?: unknown; nanos?: number | null }): number {
  return Number(seconds ?? 0) * 1_000 + (nanos ?? 0) / 1e6;
}
