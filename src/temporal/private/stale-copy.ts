/**
 * Decides when a worker's copy of a run is thrown away: once a query has spoilt it. Such a query reaches the worker by
 * way of another one that has died or stands still. No replay does what the spoilt copy would do, so the run would
 * stand still for good. The query fails instead, or the next task, which then begins from the history.
 *
 * Needs: the SDK's internal interceptors, which see each activation. They are not in its public types' documentation.
 * Can go when: no query reaches a copy with events of no task. The SDK (1.24.0) spoils a copy in two ways:
 *
 * - Events are applied that belong to no workflow task yet, and no time has passed since the task before: a timer would
 *   start again that has fired.
 * - A task is taken for done that another worker has in hand, and then times out there. The copy's commands would go
 *   out together with those of the next task, and what came with the task was taken at a time that no replay sees. If
 *   the copy sent nothing, only the time tells: the next task begins no sooner than that one timed out. Many waits are
 *   as long. So the time counts only against the first task that a copy did itself, after it was made or had read the
 *   history. Events of no task look the same if the task before brought nothing: a copy is not told that it began.
 *
 * A run may be terminated, or time out, before a worker took what came last. It has no next task, and each copy of it
 * would be spoilt anew. So a copy that was just read from the history is not given those events. A query whose argument
 * says that the run is closed is answered from it, as of the last task.
 *
 * Test: `test/chaos/query-in-hand.test.ts`, with and without it. `WORKER_STALE_COPY_GUARD=off` switches it off.
 */
import { defaultPayloadConverter } from '@temporalio/common';
import { proxySinks, workflowInfo, type WorkflowInterceptors } from '@temporalio/workflow';
import type { ActivateInput, ConcludeActivationInput } from '@temporalio/workflow/lib/interceptors.js';
import { STALE_COPY, STICKY_TIMEOUT_MS } from '../../contract/shared.js';

/** What a worker was given of a run. */
interface HistoryPoint {
  /** How far the history went: to the start of the task, or for a query to its end. */
  events: number;
  time: string;
  /** The history's size when the latest task began, in bytes, as that task's event has it. */
  bytes: string;
  isReplaying: boolean;
  isQuery: boolean;
  /** In milliseconds. */
  at: number;
}

/** The latest task that leaves events in any case. */
interface WorkflowTask extends HistoryPoint {
  /** What it has sent so far; each leaves an event in a history if the task ended well. */
  commands: Set<string>;
}

/** A task that another worker has in hand, perhaps. */
interface DoubtfulTask extends HistoryPoint {
  /** The first task that the copy did itself, after it was made or had read the history. */
  isItsFirst: boolean;
}

/** A task's end, and that the next was scheduled and started. */
const EVENTS_BETWEEN_TASKS = 3;
const JOBS_WITH_EVENTS = [
  'signalWorkflow',
  'fireTimer',
  'resolveActivity',
  'cancelWorkflow',
  'resolveChildWorkflowExecutionStart',
  'resolveChildWorkflowExecution',
  'resolveSignalExternalWorkflow',
] as const;
const COMMANDS_WITH_EVENTS = {
  startTimer: 'timer',
  scheduleActivity: 'activity',
  startChildWorkflowExecution: 'child',
  signalExternalWorkflowExecution: 'signal',
  upsertWorkflowSearchAttributes: 'search attributes',
  modifyWorkflowProperties: 'memo',
} as const;
/** In the task that sent the command, so that it leaves no event. */
const TAKE_BACK = {
  cancelTimer: 'timer',
  requestCancelActivity: 'activity',
  cancelChildWorkflowExecution: 'child',
  cancelSignalWorkflow: 'signal',
} as const;

/** The SDK's name for a query that comes without a task. */
const ALONE = 'legacy_query';

/** What the worker counts. */
export type StaleCopySinks = { staleCopies: { thrownAway(): void } };

const { staleCopies } = proxySinks<StaleCopySinks>();

/** Loaded with the workflows of every worker. The bundle of one that has it switched off begins with that word. */
export function interceptors(): WorkflowInterceptors {
  const isOff = Reflect.get(globalThis, 'staleCopyGuard') === 'off';
  return isOff
    ? {}
    : guard(
        () => staleCopies.thrownAway(),
        () => Math.min(workflowInfo().taskTimeoutMs, STICKY_TIMEOUT_MS),
      );
}

/**
 * Looks at what one copy of a run is given; calls `onThrownAway` for each activation that it fails. A task that no
 * worker ends, or that waits for the worker in charge, times out no sooner than after `timeoutMs`.
 */
export function guard(onThrownAway: () => void, timeoutMs: () => number): WorkflowInterceptors {
  let last: HistoryPoint | null = null;
  let lastTask: HistoryPoint | null = null;
  let isItsFirst = true;
  let task: WorkflowTask | null = null;
  let doubtful: DoubtfulTask | null = null;
  let isBehind = false;
  return {
    internals: [
      {
        activate(input, next) {
          const point = pointOf(input);
          const isOfNoTask = last !== null && hasNoTask(point, last);
          if (isOfNoTask && last?.isReplaying && !last.isQuery) {
            isBehind = true;
            return;
          }
          const isUndone = doubtful !== null && hasTimedOut(doubtful, point, task, timeoutMs());
          const isSpoilt = isOfNoTask || isUndone || (task !== null && lacksEvents(input, point, task));
          if (isSpoilt || (isBehind && !(point.isQuery && isOfClosedRun(input)))) {
            onThrownAway();
            throw new Error(`${STALE_COPY}: ask again`);
          }
          if (!point.isQuery) {
            doubtful = null;
            if (!lastTask || !isOfSameTask(point, lastTask)) isItsFirst = lastTask?.isReplaying ?? true;
            lastTask = point;
          } else if (last !== null && mayBeInOtherHand(last, input)) {
            doubtful = { ...last, isItsFirst };
          }
          last = point;
          next(input);
        },
        concludeActivation(input, next) {
          const output = next(input);
          // The server may leave no event of a task that does nothing else.
          if (!last || last.isQuery || areUpdatesRejected(output)) return output;
          if (!task || !isOfSameTask(last, task)) task = { ...last, commands: new Set() };
          noteCommands(task.commands, output);
          return output;
        },
      },
    ],
  };
}

function pointOf({ activation }: ActivateInput): HistoryPoint {
  const { historyLength, historySizeBytes, timestamp, isReplaying } = activation;
  const jobs = activation.jobs ?? [];
  return {
    events: Number(historyLength ?? 0),
    time: `${String(timestamp?.seconds)}.${timestamp?.nanos}`,
    bytes: String(historySizeBytes),
    isReplaying: Boolean(isReplaying),
    // A task may bring nothing.
    isQuery: jobs.length > 0 && jobs.every(({ queryWorkflow }) => queryWorkflow),
    at: Number(timestamp?.seconds) * 1_000 + Number(timestamp?.nanos) / 1_000_000,
  };
}

/** Nothing but queries that say so: by `{isClosed: true}`. */
function isOfClosedRun({ activation: { jobs } }: ActivateInput): boolean {
  return (jobs ?? []).every(({ queryWorkflow }) => {
    const [argument] = queryWorkflow?.arguments ?? [];
    return argument && defaultPayloadConverter.fromPayload<{ isClosed?: unknown } | null>(argument)?.isClosed === true;
  });
}

/** The time alone is not enough: after the server's clock was set back, tasks begin and no time passes for the run. */
function isOfSameTask(one: HistoryPoint, other: HistoryPoint): boolean {
  return one.time === other.time && one.bytes === other.bytes;
}

/** Events have come, and not the task with them. A task of the past is in history. */
function hasNoTask(point: HistoryPoint, last: HistoryPoint): boolean {
  return !point.isReplaying && !point.isQuery && point.events > last.events && isOfSameTask(point, last);
}

/** The history is too short for one in which the task before ended well. One that is replayed did. */
function lacksEvents(
  input: ActivateInput,
  { isReplaying, isQuery, events }: HistoryPoint,
  task: WorkflowTask,
): boolean {
  if (task.isReplaying || isReplaying || isQuery || events <= task.events) return false;
  return events - task.events < leastEvents(input, task);
}

/** What a history holds at least between the start of a task that ended well and the start of the next. */
function leastEvents({ activation }: ActivateInput, { commands }: WorkflowTask): number {
  const jobs = activation.jobs ?? [];
  const withEvents = jobs.filter((job) => JOBS_WITH_EVENTS.some((kind) => job[kind]));
  // The start of an activity is recorded with its end.
  const completed = jobs.filter(({ resolveActivity }) => resolveActivity?.result?.completed);
  return EVENTS_BETWEEN_TASKS + commands.size + withEvents.length + completed.length;
}

function areUpdatesRejected({ commands }: ConcludeActivationInput): boolean {
  return commands.length > 0 && commands.every(({ updateResponse }) => updateResponse?.rejected);
}

function noteCommands(noted: Set<string>, { commands }: ConcludeActivationInput): void {
  for (const command of commands) {
    for (const name of namesIn(command, COMMANDS_WITH_EVENTS)) noted.add(name);
    for (const name of namesIn(command, TAKE_BACK)) noted.delete(name);
  }
}

type WorkflowCommand = ConcludeActivationInput['commands'][number];

function namesIn<Kind extends keyof WorkflowCommand>(command: WorkflowCommand, kinds: Record<Kind, string>): string[] {
  return Object.entries<string>(kinds).flatMap(([kind, name]) => {
    const of = command[kind as Kind] as { seq?: number; childWorkflowSeq?: number } | null | undefined;
    return of ? `${name} ${of.childWorkflowSeq ?? of.seq}` : [];
  });
}

/** A query comes alone, and the history that it shows ends with the task that the copy was given last. */
function mayBeInOtherHand(last: HistoryPoint, { activation: { jobs, historyLength } }: ActivateInput): boolean {
  if (last.isQuery || last.isReplaying || Number(historyLength) !== last.events) return false;
  return (jobs ?? []).some(({ queryWorkflow }) => queryWorkflow?.queryId === ALONE);
}

/** A doubtful task may have timed out before the next one began. `lacksEvents` judges one that sent something. */
function hasTimedOut(
  doubtful: DoubtfulTask,
  point: HistoryPoint,
  task: WorkflowTask | null,
  timeoutMs: number,
): boolean {
  if (point.isQuery) return false;
  if (point.isReplaying) return true;
  if (!doubtful.isItsFirst) return false;
  const hasSent = task !== null && isOfSameTask(task, doubtful) && task.commands.size > 0;
  return !hasSent && point.at - doubtful.at >= timeoutMs;
}
