/**
 * Replays histories with a workflow bundle, some at a time, and reads what the SDK's errors say. They may hold the
 * message of an error of workflow code, which may hold a prompt: of those only the kind and the place are told.
 */
import { Runtime, Worker } from '@temporalio/worker';
import type { ReplayWorkerOptions } from '@temporalio/worker';

/** The code to replay with. */
export type ReplayOptions = Pick<ReplayWorkerOptions, 'workflowBundle' | 'workflowsPath' | 'dataConverter'>;

/** One run, and its history once it was read. */
export interface ReplayedRun {
  workflowId: string;
  runId: string;
  workflowType: string;
  history: History;
}

interface History {
  events?: { eventId?: unknown; workflowTaskStartedEventAttributes?: unknown }[] | null | undefined;
}

/** The first event of a run that does not follow from the workflow code. */
export interface Misfit {
  workflowId: string;
  runId: string;
  workflowType: string;
  /** Null where even the first workflow task does not replay, or nothing told of an event. */
  eventId: number | null;
  problem: string;
}

/** Replays wait for the native part most of the time: more at once than processors, and each holds one history. */
const REPLAYS_AT_ONCE = 4;

/**
 * Silences the SDK in this process, whose log lines would show what its errors hold; call it first, and once. Returns
 * what ends the SDK's native part: it ends with its last worker, and would keep a process that made none.
 */
export function silenceReplays(): () => Promise<void> {
  const quiet = () => {};
  const logger = { log: quiet, trace: quiet, debug: quiet, info: quiet, warn: quiet, error: quiet };
  const telemetryOptions = { logging: { filter: 'OFF', forward: {} } };
  // Signals end this process as any other of the command line.
  const runtime = Runtime.install({ logger, telemetryOptions, shutdownSignals: [] });
  return () => runtime.shutdown();
}

/** Replays each run that `next` brings until it brings none; tells of each run what did not fit, or null. */
export async function replayRuns(
  options: ReplayOptions,
  next: () => Promise<ReplayedRun | null>,
  onReplayed: (run: ReplayedRun, misfit: Misfit | null) => void,
): Promise<void> {
  const replayOne = async () => {
    let run: ReplayedRun | null = null;
    const histories = async function* () {
      while ((run = await next())) yield { workflowId: run.workflowId, history: run.history };
    };
    for await (const { error } of Worker.runReplayHistories(options, histories())) {
      onReplayed(run!, error ? misfitOf(run!, error.message) : null);
    }
  };
  const replays = Array.from({ length: REPLAYS_AT_ONCE }, replayOne);
  try {
    await Promise.all(replays);
  } finally {
    await Promise.allSettled(replays);
  }
}

/** The same misfit with its event: found by replays of ever shorter beginnings where the error does not name it. */
export async function locateMisfit(options: ReplayOptions, run: ReplayedRun, misfit: Misfit): Promise<Misfit> {
  if (misfit.eventId !== null) return misfit;
  const events = run.history.events ?? [];
  const tasks = events.flatMap((event, index) => (event.workflowTaskStartedEventAttributes ? [index] : []));
  // A task's commands are the events between it and the next one.
  const endOf = (task: number) => tasks[task + 1] ?? events.length;
  let [fits, fails] = [-1, tasks.length - 1];
  while (fails - fits > 1) {
    const middle = Math.floor((fits + fails) / 2);
    const history = { ...run.history, events: events.slice(0, endOf(middle)) };
    const isFit = await Worker.runReplayHistory(options, history, run.workflowId).then(
      () => true,
      () => false,
    );
    if (isFit) fits = middle;
    else fails = middle;
  }
  // The started event, then the completed one, then what its commands made.
  const event = events[Math.min((tasks[fails] ?? 0) + 2, events.length - 1)];
  return { ...misfit, eventId: Number(event?.eventId) };
}

function misfitOf({ workflowId, runId, workflowType }: ReplayedRun, text: string): Misfit {
  const message = /message: "((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? '';
  const named = /HistoryEvent\(id: (\d+), \w+\)/.exec(message);
  const problem = mismatch(message) ?? versionProblem(message) ?? thrown(text);
  return { workflowId, runId, workflowType, eventId: named ? Number(named[1]) : null, problem };
}

/** What the SDK's native part names: types and ids. */
function mismatch(message: string): string | undefined {
  return /Nondeterminism error: (.*)/.exec(message)?.[1];
}

/** What workflow code of ours says where another release wrote the input of a run. */
function versionProblem(message: string): string | undefined {
  return /^(a newer|an older) release continued this workflow \([\w ;,]+\)/.exec(message)?.[0];
}

function thrown(text: string): string {
  const [, kind = 'an error', place = ''] = /\\n(\w*Error)\b[^\\]*(?:\\n +at (\w+))?/.exec(text) ?? [];
  return `the workflow code threw ${kind}${place && ` in ${place}`}`;
}
