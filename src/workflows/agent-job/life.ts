/**
 * Names the life of a run: which run it is, and why a run before it may have sent a write already. Only arguments of
 * activities may depend on a reset: replay does not compare arguments.
 */
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { workflowInfo } from '@temporalio/workflow';
import type { Life } from '../../contract/write-outcome.js';
import type { Write } from './write.js';

/** Temporal sets it if a Schedule started the run. */
const SCHEDULE_ID = defineSearchAttributeKey('TemporalScheduledById', SearchAttributeType.KEYWORD);

/** The life in which a write is sent. */
export function lifeOf(write: Write, isRepeated: boolean): Life {
  return { runId: workflowInfo().runId, doubt: isRepeated ? 'repeated' : doubtAbout(write) };
}

function doubtAbout({ kind, requiresConfirmation }: Write): Life['doubt'] {
  if (requiresConfirmation || isResetRun()) return 'reset';
  const isScheduled = workflowInfo().typedSearchAttributes.get(SCHEDULE_ID) !== undefined;
  return isScheduled && kind === 'create' ? 'scheduled' : null;
}

/** Whether an operator reset the workflow into this run. */
export function isResetRun(): boolean {
  return workflowInfo().runId !== workflowInfo().originalExecutionRunId;
}

/**
 * Whether the server made this run out of one that had ended, by a retry policy or a cron schedule. Its input is that
 * of an earlier moment: what the run before wrote after that moment is not known here.
 */
export function isRepeatedRun(isContinued: boolean): boolean {
  const { attempt, cronSchedule, continuedFromExecutionRunId } = workflowInfo();
  if (attempt > 1) return true;
  // No cron schedule outlives continue-as-new.
  return continuedFromExecutionRunId !== undefined && (!isContinued || cronSchedule !== undefined);
}

/**
 * The write, with the question that the run before asked a person counted as asked in this run. The question names the
 * original run: a run into which an operator resets this one has another id, and asks again.
 */
export function stillConfirmed(write: Write): Write {
  const { toConfirm } = write;
  const { continuedFromExecutionRunId: before, originalExecutionRunId: runId } = workflowInfo();
  return toConfirm && toConfirm.runId === before ? { ...write, toConfirm: { ...toConfirm, runId } } : write;
}
