import {
  allHandlersFinished,
  ApplicationFailure,
  condition,
  continueAsNew,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import {
  FAILURE,
  followUpSignal,
  jobStateQuery,
  sendFollowUpUpdate,
  type AgentJobInput,
  type AgentJobResult,
  type CreateJobInput,
  type FollowUpStatus,
  type JobState,
} from '../../../src/contract.js';

/** A stand-in for `agentJob` without an upstream: its prompt says how it ends, and `settle` when. */
export async function agentJob(input: AgentJobInput): Promise<AgentJobResult> {
  const followUps: FollowUpStatus[] = [];
  const given = input.jobId == null ? [] : (input.usedFollowUpIds ?? []);
  const startedAt = workflowInfo().startTime.toISOString();
  const jobId = input.jobId ?? 'job-1';
  const base = {
    projectId: input.projectId,
    jobId,
    job: null,
    prLink: null,
    prLinks: [],
    sawWork: null,
    followUps,
    tags: [],
    metadata: {},
    promptHashes: {},
    startedAt,
    polls: 0,
  };
  const used = () => [...given, ...followUps.map(({ id }) => id)];
  const take = ({ id, prompt }: { id?: string | null | undefined; prompt: string }) => {
    if (id != null && !used().includes(id)) followUps.push({ id, state: 'sent' });
    return { id: id ?? '', state: 'sent' as const, job: null, prompt };
  };
  setHandler(followUpSignal, (followUp) => void take(followUp));
  setHandler(sendFollowUpUpdate, (followUp) => take(followUp));
  setHandler(jobStateQuery, (): JobState => ({
    ...base,
    phase: 'watching',
    usedFollowUpIds: used(),
    unknown: null,
    outcome: null,
    waiting: null,
    decisions: [],
    lastChangeAt: startedAt,
  }));
  const prompt = input.prompt ?? '';
  const failure = Object.values(FAILURE).find((type) => prompt.startsWith(type));
  if (failure !== undefined) {
    const details = {
      [FAILURE.invalidInput]: { field: 'prompt' },
      [FAILURE.createRejected]: { status: 422, error: 'no' },
      [FAILURE.unknownOutcome]: { kind: 'create', jobId: null, followUpId: null, reason: 'reset' },
    }[failure as string];
    throw ApplicationFailure.create({
      type: failure,
      message: 'prompt must be nice',
      nonRetryable: true,
      details: [details],
    });
  }
  if (prompt.startsWith('continue')) {
    await condition(() => followUps.length > 0);
    await continueAsNew<typeof agentJob>({ ...(input as CreateJobInput), prompt: 'stay' });
  }
  if (prompt.startsWith('stay')) await condition(() => false);
  await condition(() => false, input.settle == null ? 1 : (input.settle as number));
  await condition(allHandlersFinished);
  return {
    ...base,
    usedFollowUpIds: used(),
    decisions: [],
    outcome: 'completed',
    finishedAt: new Date().toISOString(),
    job: { id: jobId, status: 'completed', source: null, model: null, prLink: null, createdAt: null, archivedAt: null },
  };
}
