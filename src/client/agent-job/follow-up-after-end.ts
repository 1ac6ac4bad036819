/** A follow-up to a job whose workflow has ended: the same workflow id is started again, attached to the same job. */
import { WithStartWorkflowOperation, type Client, type WorkflowUpdateHandle } from '@temporalio/client';
import {
  AGENT_JOB_WORKFLOW,
  sendFollowUpUpdate,
  type AgentJobInput,
  type FollowUpAnswer,
  type FollowUpStatus,
  type Priority,
} from '../../contract.js';
import { isOtherPrompt, promptHash } from '../../agent-job/input.js';
import { agentJobStartOptions } from '../../agent-job/start-options.js';
import { attachedDetails, staticDetails } from '../../agent-job/title.js';
import { withRestartRequestId } from '../../temporal/restart-request-id.js';
import { UpdateWithStartClient } from '../../temporal/workflow-clients.js';
import { FollowUpConflictError, FollowUpUnconfirmedError } from '../errors.js';
import { startStopwatch } from '../../temporal/elapsed-time.js';
import { listEarlierRuns } from './earlier-runs.js';
import { readEndedJob, type EndedJob } from './ended-job.js';
import { restartAfter } from './restart.js';
import { readRun, type RunRecord } from './run-record.js';

export interface IdentifiedFollowUp {
  prompt: string;
  id: string;
  priority?: Priority;
}

/** Temporal repeats the first answer to an update id, whatever its text: another text is another update. */
export function updateIdOf({ id, prompt }: IdentifiedFollowUp): string {
  return `${id}:${promptHash(prompt)}`;
}

/** What came of a follow-up to a workflow that had ended a moment ago; `running` and `tooLate` want another attempt. */
export type ReAttachment =
  | { kind: 'running' }
  /** Others may have gone on from it meanwhile. */
  | { kind: 'tooLate' }
  | { kind: 'answered'; answer: FollowUpAnswer }
  /** It may have been refused where its answer is there. */
  | { kind: 'accepted'; update: WorkflowUpdateHandle<FollowUpAnswer>; isAnswered: boolean };

/** What was read of ended runs, by run id: it does not change. */
export type EndedJobs = Map<string, EndedJob>;

/**
 * Starts the ended workflow id again, attached to its job, and queues the follow-up there in the same call. All who
 * read the same ended run share one new run. A follow-up that an ended run used up is answered from what is known of
 * it.
 */
export async function reAttach(
  client: Client,
  workflowId: string,
  followUp: IdentifiedFollowUp,
  read: EndedJobs,
): Promise<ReAttachment> {
  const elapsedMs = startStopwatch();
  const run = await readRun(client, workflowId);
  if (run.isRunning) return { kind: 'running' };
  const earlier = await listEarlierRuns(client, run);
  if (earlier === null) return { kind: 'tooLate' };
  const ended = read.get(run.runId) ?? (await readEndedJob(client, run, earlier));
  read.set(run.runId, ended);
  const answer = answerOfEndedJob(workflowId, ended, followUp);
  if (answer !== null) return { kind: 'answered', answer };
  const workflows = new UpdateWithStartClient(client);
  const update = await restartAfter(client, { last: run, earlierRunIds: earlier.all, elapsedMs }, () =>
    workflows.startUpdateWithStart(sendFollowUpUpdate, {
      args: [followUp],
      updateId: updateIdOf(followUp),
      waitForStage: 'ACCEPTED',
      startWorkflowOperation: attachOperation(run, ended),
    }),
  );
  if (update === 'tooLate') return { kind: 'tooLate' };
  return { kind: 'accepted', update, isAnswered: workflows.isAnswered };
}

function attachOperation(run: RunRecord, ended: EndedJob) {
  const { projectId, jobId, usedFollowUpIds, options, titles } = ended;
  const startOptions = agentJobStartOptions(
    { projectId, jobId, usedFollowUpIds, ...options },
    {
      key: 'ended',
      taskQueue: run.taskQueue,
      inputHash: ended.inputHash ?? undefined,
      title: ended.title ?? undefined,
    },
  );
  return new WithStartWorkflowOperation<(input: AgentJobInput) => Promise<unknown>>(AGENT_JOB_WORKFLOW, {
    ...startOptions,
    // The first run's name what was asked for; an id of a job says nothing to people.
    ...(titles.summary !== null && { staticSummary: titles.summary }),
    staticDetails: attachedDetails(titles.details ?? staticDetails({ projectId, jobId }), jobId),
    // The server has accepted it before, however long it is.
    workflowId: run.workflowId,
    ...withRestartRequestId(run.runId),
    // An attached run never creates a job, so the rule against a second start of a key does not bind it.
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    workflowIdConflictPolicy: 'USE_EXISTING',
  });
}

/**
 * The state of a used id; `unknown` where an even earlier run used it up: only ids are handed on. Null for a new id.
 */
function answerOfEndedJob(
  workflowId: string,
  ended: EndedJob,
  { id, prompt }: IdentifiedFollowUp,
): FollowUpAnswer | null {
  if (isOtherPrompt(ended.promptHashes.get(id), prompt)) throw new FollowUpConflictError(workflowId, id);
  const known = ended.followUps.find((followUp) => followUp.id === id && followUp.state !== 'abandoned');
  if (known?.state === 'queued') throw cutShort(workflowId, known);
  if (known === undefined && !ended.usedFollowUpIds.includes(id)) return null;
  return { id, state: known?.state ?? 'unknown', job: ended.job };
}

/** Only a termination leaves a follow-up queued; its id is used up, for the write may have been in flight. */
function cutShort(workflowId: string, { id }: FollowUpStatus): FollowUpUnconfirmedError {
  const name = `follow-up ${JSON.stringify(id)}`;
  const text = `${name} was waiting when the workflow was terminated and may have been sent`;
  const remedy = 'look at the job, and send it under a new id if it is missing';
  return new FollowUpUnconfirmedError(workflowId, id, `${text}; ${remedy}`, { retryable: false });
}
