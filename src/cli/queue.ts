import type { Command } from 'commander';
import type { QueuedRequest, RequestQueueState } from '../contract.js';
import type { QueueReport } from '../starter.js';
import { EXIT } from './exit.js';
import { print, printJson, printToStderr, withSession } from './session.js';
import { printable, readableTime, relativeTime, show, showRows } from './show.js';

interface QueueFlags {
  project?: string;
  json?: boolean;
}

/** Adds `queue`, which shows who waits for a turn to send. */
export function addQueue(program: Command): void {
  const command = program
    .command('queue')
    .description('show who waits for the upstream’s budget, and who is next')
    .option('--project <id>', 'of one project (default: all queues, and that of the exports)')
    .option('--json', 'print one line of JSON for each queue')
    .action((flags: QueueFlags) =>
      withSession(command, async ({ jobs, signal }) => {
        const seen: QueueReport[] = [];
        for await (const queue of jobs.queues({ projectId: flags.project }, { signal })) {
          seen.push(queue);
          printQueue(queue, flags.json ?? false);
        }
        if (!flags.json) for (const line of missingOf(flags.project, seen)) print(line);
      }),
    );
}

function printQueue(queue: QueueReport, isJson: boolean): void {
  const { state, problem } = queue;
  if (isJson && state) return printJson({ workflowId: queue.workflowId, ...state });
  if (state) return print(`${formatQueue(queue, state, Date.now())}\n`);
  printToStderr(printable(`agent-jobs: ${queue.workflowId} could not be read: ${problem ?? 'no reason'}`));
  process.exitCode = EXIT.error;
}

function missingOf(projectId: string | undefined, seen: readonly QueueReport[]): string[] {
  if (projectId === undefined) return seen.length === 0 ? ['no queue'] : [];
  const missing = (['create', 'message'] as const).filter((one) => !seen.some(({ operation }) => operation === one));
  return missing.map((operation) => `no queue of ${operation}s`);
}

function formatQueue({ operation, projectId, workflowId }: QueueReport, state: RequestQueueState, now: number): string {
  const { waiting, waitingCount, inFlight } = state;
  const head = show({
    queue: operation === 'visitors' ? 'requests of all exports' : `${operation}s of ${projectId}`,
    workflowId,
    budget: state.perHour === null ? 'no number is set' : `${state.perHour} an hour`,
    lastHour: `${state.spentLastHour} spent, ${state.throttledLastHour} answered 429`,
    inFlight: inFlight === 0 ? 'none' : `${inFlight} given a turn and not reported yet`,
    heldBack: heldBackUntil(state, now),
    nextTurn: nextTurnOf(state, now),
    inTheQueue: waitingCount,
  });
  if (waiting.length === 0) return head;
  const hidden = waitingCount - waiting.length;
  const rows = waiting.map((request) => rowOf(request, now));
  const rest = hidden > 0 ? `\n… and ${hidden} more, each of which tells its own place: agent-jobs state` : '';
  return `${head}\n\n${showRows(rows, ['position', 'priority', 'since', 'expected', 'workflowId'])}${rest}`;
}

/** The queue answers as of its last event: what it says may be over. */
function heldBackUntil({ notBefore }: RequestQueueState, now: number): string | null {
  return notBefore !== null && Date.parse(notBefore) > now ? `nothing is sent before ${timeOf(notBefore, now)}` : null;
}

function nextTurnOf({ nextTurnAt, waitingCount, inFlight }: RequestQueueState, now: number): string {
  if (nextTurnAt !== null) return Date.parse(nextTurnAt) > now ? timeOf(nextTurnAt, now) : 'soon';
  if (waitingCount === 0) return 'at once: nobody waits';
  return inFlight > 0 ? 'once it is known what became of those in flight' : 'nobody knows yet';
}

function rowOf(request: QueuedRequest, now: number): object {
  const { since, expectedAt } = request;
  // The queue counts on answers that have not come yet.
  const isDue = expectedAt !== undefined && Date.parse(expectedAt) <= now;
  const expected = expectedAt === undefined ? 'unknown' : isDue ? 'soon' : relativeTime(expectedAt, now);
  return { ...request, since: relativeTime(since, now), expected };
}

/** `2026-01-31 09:15:00 UTC, in 5 min`. */
function timeOf(iso: string, now: number): string {
  return `${readableTime(iso)}, ${relativeTime(iso, now)}`;
}
