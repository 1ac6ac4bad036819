/** What one closed or running run of a job tells of itself, read from its history alone. */
import { QueryNotRegisteredError, type Client } from '@temporalio/client';
import type { AgentJobResult, FollowUpStatus, JobState } from '../../src/contract.js';

export interface RunStory {
  workflowId: string;
  runId: string;
  startedAt: number;
  /** How the run closed, as its last event says, such as `COMPLETED`; else `RUNNING`. */
  status: string;
  /** The result's outcome, or the failure's type. */
  ending: string | null;
  jobId: string | null;
  followUps: FollowUpStatus[];
  /** Reasons of the writes of this run whose outcome was unknown. */
  unknowns: string[];
  /** How often it went into `needsAttention`, as its search attribute shows. */
  shown: number;
  /** The write that was still unknown when the run ended without a result. */
  unknownAtEnd: string | null;
  /** Activities that were to write, repeats included. */
  sends: number;
  /** Workflow tasks that failed, by cause. */
  failedTasks: string[];
  events: number;
}

const CLOSED = {
  workflowExecutionCompletedEventAttributes: 'COMPLETED',
  workflowExecutionFailedEventAttributes: 'FAILED',
  workflowExecutionCanceledEventAttributes: 'CANCELLED',
  workflowExecutionContinuedAsNewEventAttributes: 'CONTINUED_AS_NEW',
  workflowExecutionTerminatedEventAttributes: 'TERMINATED',
  workflowExecutionTimedOutEventAttributes: 'TIMED_OUT',
};

type Event = NonNullable<NonNullable<Awaited<ReturnType<typeof fetchEvents>>>>[number];

export async function readStory(
  client: Client,
  run: { workflowId: string; runId: string; startedAt: number },
): Promise<RunStory> {
  const events = await fetchEvents(client, run);
  const story: RunStory = {
    ...run,
    status: 'RUNNING',
    ending: null,
    jobId: null,
    followUps: [],
    unknowns: [],
    shown: 0,
    unknownAtEnd: null,
    sends: 0,
    failedTasks: [],
    events: events.length,
  };
  const writes = new Set<string>();
  for (const event of events) {
    readActivity(story, writes, event);
    readSigns(story, event);
    readEnding(story, event);
  }
  if (story.status === 'CANCELLED' || story.status === 'FAILED') await readClosedState(client, story);
  return story;
}

async function fetchEvents(client: Client, { workflowId, runId }: { workflowId: string; runId: string }) {
  const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory();
  return events ?? [];
}

function readActivity(story: RunStory, writes: Set<string>, event: Event): void {
  const scheduled = event.activityTaskScheduledEventAttributes;
  if (scheduled && ['createJob', 'sendMessage'].includes(scheduled.activityType?.name ?? '')) {
    writes.add(String(event.eventId));
    story.sends += 1;
  }
  const completed = event.activityTaskCompletedEventAttributes;
  if (completed && writes.has(String(completed.scheduledEventId))) {
    const result = decode(completed.result) as { kind: string; reason: string };
    if (result.kind === 'inDoubt') story.unknowns.push(result.reason);
  }
  const failed = event.activityTaskTimedOutEventAttributes ?? event.activityTaskFailedEventAttributes;
  if (failed && writes.has(String(failed.scheduledEventId))) {
    story.unknowns.push(`the activity failed: ${failed.failure?.message ?? ''}`);
  }
}

function readSigns(story: RunStory, event: Event): void {
  const fields = event.upsertWorkflowSearchAttributesEventAttributes?.searchAttributes?.indexedFields;
  const phase = fields?.['AgentJobPhase'];
  if (phase && String(decode({ payloads: [phase] })).includes('needsAttention')) story.shown += 1;
  const jobId = event.workflowPropertiesModifiedEventAttributes?.upsertedMemo?.fields?.['jobId'];
  if (jobId) story.jobId = (decode({ payloads: [jobId] }) as string | null) ?? story.jobId;
  const failed = event.workflowTaskFailedEventAttributes;
  if (failed) story.failedTasks.push(`${failed.cause}: ${failed.failure?.message ?? ''}`.slice(0, 200));
}

function readEnding(story: RunStory, event: Event): void {
  // The list lags behind a server that was killed; the history does not.
  for (const [attributes, status] of Object.entries(CLOSED))
    if (event[attributes as keyof Event]) story.status = status;
  const completed = event.workflowExecutionCompletedEventAttributes;
  if (completed) {
    const result = decode(completed.result) as AgentJobResult;
    story.ending = result.outcome;
    story.jobId = result.jobId;
    story.followUps = result.followUps;
  }
  const failure = event.workflowExecutionFailedEventAttributes?.failure;
  if (failure) story.ending = failure.applicationFailureInfo?.type ?? failure.message ?? 'failed';
  if (event.workflowExecutionCanceledEventAttributes) story.ending = 'Canceled';
}

/** Runs that end without a result still answer the query. */
async function readClosedState(client: Client, story: RunStory): Promise<void> {
  const handle = client.workflow.getHandle(story.workflowId, story.runId);
  const query = client.withDeadline(Date.now() + 30_000, () => handle.query<JobState>('jobState'));
  const state = await query.catch((error: unknown) => {
    // The worker answers by replaying the run: one that it can't replay is a failed task, only later.
    if (!(error instanceof QueryNotRegisteredError)) throw error;
    story.failedTasks.push(`query of the closed run: ${error.message}`.slice(0, 200));
    return null;
  });
  if (state === null) return;
  story.jobId = state.jobId;
  story.followUps = state.followUps;
  story.unknownAtEnd = state.unknown?.reason ?? null;
}

interface PayloadList {
  payloads?: readonly { data?: Uint8Array | null }[] | null;
}

function decode(list: PayloadList | null | undefined): unknown {
  const data = list?.payloads?.[0]?.data;
  return data ? (JSON.parse(Buffer.from(data).toString('utf8')) as unknown) : null;
}
