/** How a job's end is told to a shell: its exit code, its lines, its JSON. */
import type { AgentJobResult, Outcome } from '../contract.js';
import type { JobHandle } from '../starter.js';
import { BadEndError, codeOf, EXIT } from './exit.js';
import { withProgress } from './job-progress.js';
import { print, printJson, printToStderr, type Session } from './session.js';
import { fields, hint, printable, readableTime } from './text.js';

const OUTCOME_EXIT: Record<Outcome, number> = {
  completed: EXIT.ok,
  archived: EXIT.ok,
  failed: EXIT.failed,
  timedOut: EXIT.timedOut,
  lost: EXIT.lost,
  abandoned: EXIT.abandoned,
};

/** By the names of the starter's errors. */
const FAILURE_EXIT: Record<string, number> = {
  InvalidInputError: EXIT.notCreated,
  CreateRejectedError: EXIT.notCreated,
  UnknownOutcomeError: EXIT.unknownOutcome,
  JobCanceledError: EXIT.canceled,
  JobTerminatedError: EXIT.canceled,
};

/** How one job ended. */
export interface JobEnd {
  /** The outcome, or the failure's code. */
  label: string;
  /** The exit code of a command that waits for this job alone. */
  code: number;
  /** The fields of a line of JSON. */
  json: object;
  prLink: string | null;
}

/** Waits for a job's end. A failure of the job is an end too; anything else is thrown. */
export async function readEnd(job: JobHandle, signal: AbortSignal): Promise<JobEnd> {
  try {
    const result = await job.result({ signal });
    const code = (OUTCOME_EXIT as Partial<Record<string, number>>)[result.outcome] ?? EXIT.error;
    return { label: result.outcome, code, json: result, prLink: result.job?.prLink ?? null };
  } catch (error) {
    const { name, message } = error as Error;
    const code = FAILURE_EXIT[name];
    if (code === undefined) throw error;
    const label = codeOf(error as Error);
    const remains = remainsOf(error as Error);
    return { label, code, json: { code: label, message, ...remains }, prLink: remains.prLink ?? null };
  }
}

/** Waits for a job's end, tells meanwhile how it goes, prints its result and sets the exit code. */
export async function waitAndPrint(session: Session, job: JobHandle, isJson: boolean): Promise<void> {
  const { signal, globals } = session;
  try {
    const result = await withProgress(session, job, job.result({ signal }));
    if (isJson) printJson(result);
    else print(formatResult(job.workflowId, result));
    const code = (OUTCOME_EXIT as Partial<Record<string, number>>)[result.outcome];
    if (code === undefined) printToStderr('agent-jobs: this release does not know that outcome: it is no success');
    process.exitCode = code ?? EXIT.error;
  } catch (error) {
    if (signal.aborted) printToStderr(`agent-jobs: to wait again: ${hint(globals, ['wait', job.workflowId])}`);
    throw toBadEnd(job, error as Error);
  }
}

/** The job's failure; any other error is the command's own. */
function toBadEnd({ workflowId }: JobHandle, error: Error): Error {
  const exitCode = FAILURE_EXIT[error.name];
  if (exitCode === undefined) return error;
  const message = printable(`the job failed: ${error.message}`);
  return new BadEndError(exitCode, { code: codeOf(error), message, workflowId, ...remainsOf(error) });
}

interface JobRemains {
  prLink?: string | null | undefined;
  lastResult?: AgentJobResult | null | undefined;
}

/** What is left of a job whose newest run ended without a result; nothing of one that was not created. */
function remainsOf({ prLink, lastResult }: Error & JobRemains): JobRemains {
  return lastResult === undefined ? {} : { prLink, lastResult };
}

function formatResult(workflowId: string, result: AgentJobResult): string {
  const followUps = result.followUps.map(({ id, state, error }) => `${id}: ${state}${error ? ` (${error})` : ''}`);
  return fields([
    ['Workflow', workflowId],
    ['Outcome', result.outcome],
    ['Job', result.jobId],
    ['Pull request', result.job?.prLink],
    ['Follow-ups', followUps.join(', ')],
    ['Started', readableTime(result.startedAt)],
    ['Finished', readableTime(result.finishedAt)],
  ]);
}
