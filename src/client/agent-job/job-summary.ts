/** One row of a list of jobs, from what Temporal's visibility has of a run. */
import type { WorkflowExecutionInfo } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import {
  MEMO,
  SEARCH_ATTRIBUTE,
  type JobMetadata,
  type JobOutcome,
  type Phase,
  type ShownWaitingFor,
} from '../../contract.js';
import { labelsOf } from '../../agent-job/labels.js';
import { ENDED_BY, textOrNull } from './run-record.js';

/** One job as Temporal lists it; may lag a moment behind the workflow. */
export interface JobSummary {
  workflowId: string;
  /** Of the newest run. */
  runId: string;
  /** Project and the prompt's first line; null where another client than ours started the job. */
  title: string | null;
  projectId: string | null;
  phase: Phase | null;
  batch: string | null;
  tags: string[];
  metadata: JobMetadata;
  /** The upstream's own status, as last read. */
  status: string | null;
  /** Null while it runs. */
  outcome: JobOutcome | null;
  /** What a running job waits for, where that may last; null where it waits for none of these. */
  waitingFor: ShownWaitingFor | null;
  jobId: string | null;
  prLink: string | null;
  /** Temporal's status of the workflow, such as `RUNNING`. */
  workflowStatus: string;
  startedAt: string;
  closedAt: string | null;
}

const PROJECT = defineSearchAttributeKey(SEARCH_ATTRIBUTE.project, SearchAttributeType.KEYWORD);
const PHASE = defineSearchAttributeKey(SEARCH_ATTRIBUTE.phase, SearchAttributeType.KEYWORD);
const BATCH = defineSearchAttributeKey(SEARCH_ATTRIBUTE.batch, SearchAttributeType.KEYWORD);
const TAGS = defineSearchAttributeKey(SEARCH_ATTRIBUTE.tags, SearchAttributeType.KEYWORD_LIST);
const STATUS = defineSearchAttributeKey(SEARCH_ATTRIBUTE.status, SearchAttributeType.KEYWORD);
const OUTCOME = defineSearchAttributeKey(SEARCH_ATTRIBUTE.outcome, SearchAttributeType.KEYWORD);
const WAITING_FOR = defineSearchAttributeKey(SEARCH_ATTRIBUTE.waitingFor, SearchAttributeType.KEYWORD);

/** A run as it is listed, or described. */
export function toSummary(run: Omit<WorkflowExecutionInfo, 'raw'>): JobSummary {
  const attributes = run.typedSearchAttributes;
  return {
    workflowId: run.workflowId,
    runId: run.runId,
    title: textOrNull(run.memo?.[MEMO.title]),
    projectId: attributes.get(PROJECT) ?? null,
    phase: (attributes.get(PHASE) as Phase | undefined) ?? null,
    batch: attributes.get(BATCH) ?? null,
    tags: attributes.get(TAGS) ?? [],
    metadata: labelsOf({ metadata: run.memo?.[MEMO.metadata] }).metadata,
    status: attributes.get(STATUS) ?? null,
    outcome: outcomeOf(run),
    waitingFor: waitingForOf(run),
    jobId: textOrNull(run.memo?.[MEMO.jobId]),
    prLink: textOrNull(run.memo?.[MEMO.prLink]),
    workflowStatus: run.status.name,
    startedAt: run.startTime.toISOString(),
    closedAt: run.closeTime?.toISOString() ?? null,
  };
}

/** Null too where the end must be read. */
function outcomeOf({ typedSearchAttributes, status }: Omit<WorkflowExecutionInfo, 'raw'>): JobOutcome | null {
  if (status.name === 'RUNNING') return null;
  return ENDED_BY[status.name] ?? (typedSearchAttributes.get(OUTCOME) as JobOutcome | undefined) ?? null;
}

/** A job that was terminated keeps what it waited for. */
function waitingForOf({
  typedSearchAttributes: attributes,
  status,
}: Omit<WorkflowExecutionInfo, 'raw'>): ShownWaitingFor | null {
  if (status.name !== 'RUNNING') return null;
  return (attributes.get(WAITING_FOR) as ShownWaitingFor | undefined) ?? null;
}
