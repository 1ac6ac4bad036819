/**
 * What explains a violation, kept in files: histories, failed workflow tasks, callers' errors, injected faults by time,
 * and worker logs.
 */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import type { JobCase, Violation } from './audit.js';
import type { Timeline } from './timeline.js';

/** Worker log lines of so long before and after a failed task are kept, whatever job they are of. */
const AROUND_MS = 5_000;

interface EvidenceSource {
  /** The folder of the run: its worker logs are there, and the evidence goes into a folder of it. */
  folder: string;
  seed: number;
  client: Client;
  timeline: Timeline;
}

/** Keeps what there is about each workflow that violated something; answers with the folder. */
export async function keepEvidence(
  source: EvidenceSource,
  violations: readonly Violation[],
  cases: readonly JobCase[],
): Promise<string> {
  const folder = join(source.folder, 'evidence');
  await mkdir(folder, { recursive: true });
  await writeJson(join(folder, 'timeline.json'), source.timeline.moments);
  const workflowIds = [...new Set(violations.map(({ workflowId }) => workflowId))];
  for (const [index, workflowId] of workflowIds.entries()) {
    const own = join(folder, `${index + 1}`);
    await mkdir(own, { recursive: true });
    const job = cases.find(({ caller }) => caller.workflowId === workflowId);
    const what = violations
      .filter((violation) => violation.workflowId === workflowId)
      .map((violation) => violation.what);
    await writeJson(join(own, 'violation.json'), {
      seed: source.seed,
      workflowId,
      what,
      ...factsOfJob(job, source.timeline),
    });
    await keepRuns(source, own, job);
  }
  return folder;
}

/** The caller's side and the runs' summaries, each error with the faults before it. */
function factsOfJob(job: JobCase | undefined, timeline: Timeline): object {
  if (!job) return {};
  const { caller, runs } = job;
  const errors = caller.errors.map((error) => ({ ...error, faultsBefore: timeline.before(error.at) }));
  const answers = [...caller.answers].map(([id, states]) => [id, [...states]]);
  return { caller: { ...caller, errors, answers, refused: [...caller.refused] }, runs };
}

async function keepRuns({ folder, client, timeline }: EvidenceSource, own: string, job: JobCase | undefined) {
  const failedTasks: FailedTask[] = [];
  for (const { workflowId, runId } of job?.runs ?? []) {
    const text = historyToJSON(await client.workflow.getHandle(workflowId, runId).fetchHistory());
    await writeFile(join(own, `history-${runId}.json`), text);
    const history = JSON.parse(text) as JsonHistory;
    failedTasks.push(...(await readFailedTasks(history, { workflowId, runId, timeline })));
  }
  await writeJson(join(own, 'failed-workflow-tasks.json'), failedTasks);
  const names = (job?.runs ?? []).flatMap(({ workflowId, runId }) => [workflowId, runId]);
  const times = failedTasks.map(({ at }) => Date.parse(at));
  await writeFile(join(own, 'worker-logs.txt'), (await workerLogLines(folder, names, times)).join('\n'));
}

interface JsonEvent {
  eventId: string;
  eventTime: string;
  eventType: string;
  workflowTaskFailedEventAttributes?: { startedEventId: string; cause?: string; failure?: object };
  workflowTaskTimedOutEventAttributes?: { startedEventId: string; timeoutType?: string };
  workflowTaskStartedEventAttributes?: { identity?: string };
}

interface JsonHistory {
  events: JsonEvent[];
}

/** A workflow task that ended without a result, with its full failure. */
interface FailedTask {
  runId: string;
  eventId: string;
  at: string;
  /** What Temporal says of it, uncut. */
  said: object;
  /** The worker process that had it, as `pid@host`. */
  worker: string | undefined;
  faultsBefore: string[];
  /**
   * Whether the history up to that task replays from its start on the present code, as a worker without the run in its
   * cache does.
   */
  replayOfTheHistoryThen: string;
}

async function readFailedTasks(
  { events }: JsonHistory,
  { workflowId, runId, timeline }: { workflowId: string; runId: string; timeline: Timeline },
): Promise<FailedTask[]> {
  const tasks: FailedTask[] = [];
  for (const event of events) {
    const said = event.workflowTaskFailedEventAttributes ?? event.workflowTaskTimedOutEventAttributes;
    if (!said) continue;
    const started = events.findIndex(({ eventId }) => eventId === said.startedEventId);
    tasks.push({
      runId,
      eventId: event.eventId,
      at: event.eventTime,
      said,
      worker: events[started]?.workflowTaskStartedEventAttributes?.identity,
      faultsBefore: timeline.before(new Date(event.eventTime).toISOString()),
      replayOfTheHistoryThen:
        started < 0 ? 'the task was never started' : await replay(events.slice(0, started + 1), workflowId),
    });
  }
  return tasks;
}

async function replay(events: JsonEvent[], workflowId: string): Promise<string> {
  // The worker's native part is loaded for a violation only.
  const { Worker } = await import('@temporalio/worker');
  const { loadWorkflowBundle } = await import('../../src/temporal/workflow-bundle.js');
  try {
    await Worker.runReplayHistory(loadWorkflowBundle(), { events }, workflowId);
    return 'replays';
  } catch (error) {
    return String(error);
  }
}

async function workerLogLines(folder: string, names: readonly string[], times: readonly number[]): Promise<string[]> {
  const found: string[] = [];
  for (const file of (await readdir(folder)).filter((name) => /^worker-.*\.log$/.test(name))) {
    for (const line of (await readFile(join(folder, file), 'utf8')).split('\n')) {
      const at = Date.parse(/"time":"([^"]+)"/.exec(line)?.[1] ?? '');
      const isNear = times.some((time) => Math.abs(time - at) <= AROUND_MS);
      if (isNear || names.some((name) => line.includes(name))) found.push(`${file}: ${line}`);
    }
  }
  return found;
}

function writeJson(file: string, content: unknown): Promise<void> {
  return writeFile(file, `${JSON.stringify(content, null, 2)}\n`);
}
