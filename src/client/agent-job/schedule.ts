/** What a Temporal Schedule needs to start `agentJob` itself: each of its runs is a job, with a key of its own. */
import type { ScheduleOptions, ScheduleOverlapPolicy, ScheduleSpec } from '@temporalio/client';
import { CREATE_JOB } from '../../agent-job/fields.js';
import { agentJobStartOptions, checkKey } from '../../agent-job/start-options.js';
import { AGENT_JOB_WORKFLOW, type AgentJobOptions, agentJobWorkflowId, LIMIT } from '../../contract.js';
import { checkObject, ID, oneOf, schemaOf, TEXT } from '../../contract/kinds.js';
import { InvalidInputError } from '../../contract/errors.js';
import { checkKnownFields } from '../settings.js';

/** When jobs start, and what each of them is to do. */
export interface AgentJobSchedule extends AgentJobOptions {
  projectId: string;
  /** Unique in the project: Temporal appends the time to it, and that is the key of a job. */
  name: string;
  /** What to do, 1 byte to 512 KiB of UTF-8: the same text for each job. */
  prompt: string;
  /** The times, as `client.schedule.create` takes them. */
  spec: ScheduleSpec;
  /** What happens at a time while an earlier job runs; default `SKIP`. `TERMINATE_OTHER` would cut a write off. */
  overlap?: Exclude<ScheduleOverlapPolicy, 'TERMINATE_OTHER'> | null | undefined;
  /** The task queue of the workers; default `agent-jobs`. */
  taskQueue?: string | null | undefined;
  /** Lists and pages of the web UI name the jobs by `name`, and show nothing of the prompt. */
  hidePrompts?: boolean | null | undefined;
}

const { jobId: _, usedFollowUpIds: __, promptHashes: ___, ...JOB } = CREATE_JOB;
/** The fields beside those of a job. */
const OWN = { name: {}, spec: {}, overlap: {}, taskQueue: {}, hidePrompts: {} };
const KNOWN = { properties: { ...OWN, ...(schemaOf(JOB)['properties'] as object) } };

const OVERLAP = oneOf('SKIP', 'BUFFER_ONE', 'BUFFER_ALL', 'CANCEL_OTHER', 'ALLOW_ALL');

/** The room for a hyphen and the time, which has 20 characters. The server also puts 23 before a Schedule's id. */
const ROOM_FOR_TIME = 30;

/**
 * The options for `client.schedule.create` of Temporal's client. Its action starts `agentJob`. The Schedule has the id
 * `agent-job/<projectId>/<name>`. The id of each job is the same with the job's time. Throws InvalidInputError.
 */
export function agentJobSchedule(schedule: AgentJobSchedule): ScheduleOptions {
  checkKnownFields(checkObject(schedule, 'schedule'), KNOWN, null);
  const { name, spec, overlap, taskQueue, hidePrompts, ...input } = schedule;
  checkObject(spec, 'spec');
  checkName(ID.check(input.projectId, 'projectId'), name);
  TEXT.check(input.prompt, 'prompt');
  const start = agentJobStartOptions(input, { key: name, taskQueue, hidePrompts });
  // A Schedule takes no priority of Temporal's tasks, and has a reuse policy of its own.
  const { priority: _, workflowIdReusePolicy: __, ...action } = start;
  return {
    scheduleId: action.workflowId,
    spec,
    policies: { overlap: OVERLAP.check(overlap ?? 'SKIP', 'overlap') },
    action: { type: 'startWorkflow', workflowType: AGENT_JOB_WORKFLOW, ...action },
  };
}

function checkName(projectId: string, name: unknown): void {
  const { length } = agentJobWorkflowId(projectId, checkKey(name, 'name'));
  const most = LIMIT.workflowIdCharacters - ROOM_FOR_TIME;
  if (length <= most) return;
  const limit = `must make a workflow id of at most ${most} characters, which leaves room for the time`;
  throw new InvalidInputError('name', `${limit}; it has ${length}`);
}
