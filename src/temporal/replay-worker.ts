/**
 * Replays histories with a workflow bundle, one after the other, and reads what the SDK's errors say. They may hold the
 * message of an error of workflow code, which may hold a prompt: only its kind and place are reported.
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
  history: Parameters<typeof Worker.runReplayHistory>[1];
}

/** The first event of a run that does not follow from the workflow code. */
export interface Misfit extends Omit<ReplayedRun, 'history'> {
  /** Null if the SDK's error names none. */
  eventId: number | null;
  problem: string;
}

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

/** Replays each run, and yields it with what did not fit, or null. In memory is one history at a time. */
export async function* replayRuns(
  options: ReplayOptions,
  runs: AsyncIterable<ReplayedRun>,
): AsyncGenerator<{ run: ReplayedRun; misfit: Misfit | null }, void, undefined> {
  let run!: ReplayedRun;
  const histories = async function* () {
    for await (run of runs) yield { workflowId: run.workflowId, history: run.history };
  };
  for await (const { error } of Worker.runReplayHistories(options, histories()))
    yield { run, misfit: error ? misfitOf(run, error.message) : null };
}

function misfitOf({ workflowId, runId, workflowType }: ReplayedRun, text: string): Misfit {
  const message = /message: "((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? '';
  const named = /HistoryEvent\(id: (\d+), \w+\)/.exec(message);
  // What the SDK's native part names: types and ids.
  const mismatch = /Nondeterminism error: (.*)/.exec(message)?.[1];
  // What our workflow code says if another release wrote the input of a run.
  const [otherRelease] = /^(a newer|an older) release continued this workflow \([\w ;,]+\)/.exec(message) ?? [];
  const problem = mismatch ?? otherRelease ?? thrown(text);
  return { workflowId, runId, workflowType, eventId: named ? Number(named[1]) : null, problem };
}

function thrown(text: string): string {
  const [, kind = 'an error', place = ''] = /\\n(\w*Error)\b[^\\]*(?:\\n +at (\w+))?/.exec(text) ?? [];
  return `the workflow code threw ${kind}${place && ` in ${place}`}`;
}
