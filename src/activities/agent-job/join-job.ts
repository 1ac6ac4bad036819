/**
 * The activity `joinAgentJob`: a workflow can't read the result of another one, so it asks here. Decides which run it
 * joins, how often it asks for the end, and what a job without a result means to its caller. Times in milliseconds.
 */
import { activityInfo, Context, heartbeat } from '@temporalio/activity';
import { WorkflowFailedError, type Client } from '@temporalio/client';
import { TerminatedFailure, WorkflowNotFoundError, type ApplicationFailure } from '@temporalio/common';
import { agentJobStartOptions } from '../../agent-job/start-options.js';
import { readRun } from '../../client/agent-job/run-record.js';
import { startJob } from '../../client/agent-job/start-or-join.js';
import { KeyConflictError } from '../../client/errors.js';
import { isDeadlineExceeded } from '../../client/temporal-errors.js';
import { JOIN_FAILURE, type AgentJobResult, type JoinJobInput } from '../../contract.js';
import { endWithoutResult, expected, invalidInputFailure } from '../../agent-job/closed-run.js';
import { checkObject, FLAG, optional, TEXT } from '../../contract/kinds.js';
import { InvalidInputError } from '../../contract/errors.js';
import { startClock, tryLater } from '../../temporal/activity-attempt.js';

/** An attempt waits ten seconds for the end: a worker that shuts down can wait for that, too. */
const JOIN_ROUND_MS = 10_000;
/** The end is reported late by at most a tenth of the job's time, and a minute. */
const WAIT = { ratio: 0.1, minMs: 1_000, maxMs: 60_000 };

/** A server that was just restored or that failed over may find a run a little later. */
const MISSING_MS = 300_000;
/** Each is one operator's reset. */
const MAX_RESETS = 100;

const HIDE_PROMPTS = optional(FLAG);

/** What an attempt leaves to the next one: which run it joined. A later run of the key may be another job. */
interface Joined {
  runId: string;
  /** Temporal has not found that run since then. */
  missingSince?: number;
}

/** Starts the job or joins the one that is there, as our own client does, and returns its result. */
export async function joinAgentJob(input: JoinJobInput): Promise<AgentJobResult> {
  const { client } = Context.current();
  const { heartbeatDetails, scheduledTimestampMs } = activityInfo();
  const { server: now } = startClock();
  const joined = isJoined(heartbeatDetails) ? heartbeatDetails : await join(client, input);
  heartbeat(joined);
  const result = await resultWithin(client, input.workflowId, joined, now);
  if (result !== null) return result;
  const waitMs = Math.min(WAIT.maxMs, Math.max(WAIT.minMs, (now() - scheduledTimestampMs) * WAIT.ratio));
  throw tryLater('StillRunning', 'the job runs; nothing is wrong', 'asks again', waitMs);
}

function isJoined(details: unknown): details is Joined {
  return typeof (details as Joined | undefined)?.runId === 'string';
}

async function join(client: Client, input: JoinJobInput): Promise<Joined> {
  const { taskQueue } = activityInfo();
  try {
    // Workflows in other languages ask as well.
    const workflowId = TEXT.check(checkObject(input, 'input').workflowId, 'workflowId');
    const hidePrompts = HIDE_PROMPTS.check(input.hidePrompts, 'hidePrompts');
    const { runId } = await startJob(
      client,
      agentJobStartOptions(input.job, { workflowId, taskQueue, hidePrompts }),
      {},
    );
    return { runId };
  } catch (error) {
    throw definiteFailure(error) ?? error;
  }
}

/** What no further attempt would change. */
function definiteFailure(error: unknown): ApplicationFailure | null {
  if (error instanceof KeyConflictError) return expected({ message: error.message, type: JOIN_FAILURE.keyConflict });
  return error instanceof InvalidInputError ? expected(invalidInputFailure(error)) : null;
}

/** The result of the run that was joined, over continue-as-new and resets; null if it goes on. */
async function resultWithin(
  client: Client,
  workflowId: string,
  joined: Joined,
  now: () => number,
): Promise<AgentJobResult | null> {
  try {
    return await client.withDeadline(Date.now() + JOIN_ROUND_MS, () =>
      resultOverResets(client, workflowId, joined.runId),
    );
  } catch (error) {
    if (isDeadlineExceeded(error)) return null;
    if (error instanceof WorkflowFailedError) throw expected(endWithoutResult(workflowId, error.cause));
    if (error instanceof WorkflowNotFoundError) throw missing(workflowId, joined, now());
    throw error;
  }
}

async function resultOverResets(client: Client, workflowId: string, joinedRunId: string): Promise<AgentJobResult> {
  for (let runId = joinedRunId, resets = 0; ; resets++) {
    try {
      return (await client.workflow.result(workflowId, runId)) as AgentJobResult;
    } catch (error) {
      const next = isTermination(error) && resets < MAX_RESETS ? await laterRun(client, workflowId, runId) : null;
      if (next === null) throw error;
      runId = next;
    }
  }
}

function isTermination(error: unknown): boolean {
  return error instanceof WorkflowFailedError && error.cause instanceof TerminatedFailure;
}

/** The newest run of the same chain: a reset terminates the run that it begins anew. Null if there is none. */
async function laterRun(client: Client, workflowId: string, runId: string): Promise<string | null> {
  const newest = await readRun(client, workflowId);
  if (newest.runId === runId) return null;
  const { raw } = await client.workflow.getHandle(workflowId, runId).describe();
  return (raw.workflowExecutionInfo?.firstRunId || runId) === newest.firstRunId ? newest.runId : null;
}

/** Temporal does not find the run that was joined: a while later it is gone for good. */
function missing(workflowId: string, { runId, missingSince }: Joined, now: number): ApplicationFailure {
  const since = missingSince ?? now;
  heartbeat({ runId, missingSince: since } satisfies Joined);
  if (now - since < MISSING_MS) return tryLater('JobMissing', 'Temporal does not find the job', 'asks again', 30_000);
  const gone = 'Temporal no longer keeps the job: it was deleted, or closed longer ago than the retention';
  const remedy = 'check upstream what became of it, and use another key for a new job';
  return expected({ message: `${gone}; ${remedy} [workflowId=${workflowId}]`, type: JOIN_FAILURE.notFound });
}
