/**
 * What an agent may do with jobs. Nobody but a person settles a write in doubt: there is no tool for it, and what a job
 * in need of one is told as says whom to ask.
 */
import { createHash } from 'node:crypto';
import type { JobState } from '../../contract.js';
import { checkObject, checkWholeNumber } from '../../contract/input-checks.js';
import { ID, type JsonSchema, schemaOf, TEXT } from '../../contract/kinds.js';
import { checkKnownFields } from '../../client/known-fields.js';
import { checkKey } from '../address.js';
import { type JobBody, JOBS_QUERY, pageOfJobs, readJob, startedJob } from '../bodies.js';
import { type Caller, checkMaySee } from '../keys.js';
import { whileWanted } from '../request.js';
import { contractSchemas, plainSchema, type Properties } from '../schemas.js';
import type { AgentJobs, FollowUpOptions, JobHandle, StartRequest } from '../../starter.js';

/** One call of a tool. */
interface ToolCall {
  jobs: AgentJobs;
  caller: Caller;
  /** The longest time that it may wait. */
  maxWaitMs: number;
  /** Aborted when this server is about to end. */
  ending: AbortSignal;
  args: Readonly<Record<string, unknown>>;
  /** Aborted when the agent no longer waits. */
  gone: AbortSignal;
  /** Tells an agent that waits what the job does now. */
  onState: (state: JobState) => void;
}

/** What a tool answers: the body of the HTTP answer, and what to do next; `advice` of the body says what not to do. */
interface ToolAnswer {
  body: object & { advice?: string };
  next: string;
}

/** What an agent is told of a tool, and what it does. */
interface Tool {
  name: string;
  title: string;
  description: string;
  input: JsonSchema;
  readOnly: boolean;
  run: (call: ToolCall) => Promise<ToolAnswer>;
}

/** Clients cut off calls at 60 or 120 seconds. */
export const DEFAULT_WAIT_MS = 50_000;

const SCHEMAS = contractSchemas();
const { jobId: _, usedFollowUpIds: __, ...START } = propertiesOf(SCHEMAS['CreateJobInput']!);
const PROJECT = { projectId: START['projectId']! };
const JOB = { ...PROJECT, key: text('The key of the job.') };
const KEY_OF_START = 'The key of the job: a start repeated with it makes no second job. Default: made of the prompt.';
const SECONDS = {
  type: 'integer',
  minimum: 0,
  description: 'How long to wait; default as long as this server lets you.',
};

export const TOOLS: readonly Tool[] = [
  {
    name: 'start_job',
    title: 'Start an agent job',
    description: 'Starts a job of a coding agent and answers at once. It may run for hours and open a pull request.',
    input: inputOf({ ...START, key: text(KEY_OF_START) }, 'projectId', 'prompt'),
    readOnly: false,
    run: startJob,
  },
  {
    name: 'get_job',
    title: 'Look at a job',
    description: 'Reads the state of a job, and its result once it is over.',
    input: inputOf(JOB, 'projectId', 'key'),
    readOnly: true,
    run: getJob,
  },
  {
    name: 'wait_for_job',
    title: 'Wait for a job',
    description: 'Waits until the job is over, or the time is: then call it again, or do something else meanwhile.',
    input: inputOf({ ...JOB, timeoutSeconds: SECONDS }, 'projectId', 'key'),
    readOnly: true,
    run: waitForJob,
  },
  {
    name: 'send_follow_up',
    title: 'Send a follow-up message',
    description: 'Sends a message to the agent of a job. Repeated with the same id, it is delivered once.',
    input: inputOf({ ...JOB, ...propertiesOf(SCHEMAS['FollowUpInput']!) }, 'projectId', 'key', 'prompt'),
    readOnly: false,
    run: sendFollowUp,
  },
  {
    name: 'list_jobs',
    title: 'List jobs',
    description:
      'Lists the jobs of a project, page by page: those that run first, by their start, then those that have ended, ' +
      'by their end, the newest first.',
    input: inputOf({ ...PROJECT, ...propertiesOf(schemaOf(JOBS_QUERY)) }, 'projectId'),
    readOnly: true,
    run: listJobs,
  },
];

/** Checks the arguments, and whether the caller may see the project; then runs the tool. */
export async function callTool(tool: Tool, call: ToolCall): Promise<ToolAnswer> {
  checkKnownFields(checkObject(call.args, 'arguments'), tool.input, null);
  const project = ID.check(call.args['projectId'], 'projectId');
  checkMaySee(call.caller, project);
  return tool.run(call);
}

/** Without a key, one that an agent which repeats itself comes to again. */
export function keyOf(project: string, prompt: string): string {
  return `mcp-${createHash('sha256').update(`${project}\n${prompt}`).digest('hex').slice(0, 32)}`;
}

async function startJob({ jobs, args }: ToolCall): Promise<ToolAnswer> {
  const { key, ...request } = args as unknown as StartRequest & { key?: string | null; prompt: string };
  const started = await startedJob(jobs, {
    ...request,
    key: key ?? keyOf(request.projectId, TEXT.check(request.prompt, 'prompt')),
  });
  const joined = started.isNew ? 'The job was started.' : 'The key already named this job: no second one was started.';
  return answerOf(started, `${joined} Its key is ${started.key}. Call wait_for_job for its result.`);
}

async function getJob(call: ToolCall): Promise<ToolAnswer> {
  return answerOfJob(await readJob(handleOf(call), call));
}

async function waitForJob(call: ToolCall): Promise<ToolAnswer> {
  const { args, maxWaitMs, onState } = call;
  const job = handleOf(call);
  const maxSeconds = Math.floor(maxWaitMs / 1_000);
  const seconds = checkWholeNumber(args['timeoutSeconds'] ?? maxSeconds, 'timeoutSeconds', [0, maxSeconds]);
  await whileWanted(call, seconds * 1_000, async (signal) => {
    for await (const state of job.watch({ signal })) onState(state);
  }).catch(() => {}); // However it ended, and whether it did, is read now.
  call.gone.throwIfAborted();
  return answerOfJob(await readJob(job, call));
}

/** Clients cut off calls at 60 seconds. */
const FATE_TIMEOUT_MS = 20_000;

async function sendFollowUp(call: ToolCall): Promise<ToolAnswer> {
  const { id, priority, prompt: text } = call.args as unknown as { prompt: string } & FollowUpOptions;
  const timeoutMs = Math.min(FATE_TIMEOUT_MS, call.maxWaitMs);
  const job = handleOf(call);
  const body = await job.sendFollowUp(text, { id, priority, timeoutMs, signal: call.gone });
  if (body.state === 'unknown') return advised(body, `${askAPerson(job)} Do not send it again.`);
  const isTaken = body.state === 'sent' || body.state === 'queued';
  return {
    body,
    next: isTaken ? `It is ${body.state}. Call wait_for_job for what comes of it.` : `It is ${body.state}.`,
  };
}

async function listJobs({ jobs, args, gone }: ToolCall): Promise<ToolAnswer> {
  const { projectId: project, ...query } = args;
  const checked = Object.entries(JOBS_QUERY).flatMap(([name, kind]) =>
    query[name] == null ? [] : [[name, kind.check(query[name], name)]],
  );
  const page = await pageOfJobs(jobs, { ...Object.fromEntries(checked), projectId: project }, gone);
  return { body: page, next: page.nextCursor === null ? 'That is all.' : 'There are more: give nextCursor as cursor.' };
}

function handleOf({ jobs, args }: ToolCall): JobHandle {
  return jobs.handle({ projectId: args['projectId'] as string, key: checkKey(args['key'] as string) });
}

function answerOfJob(body: JobBody): ToolAnswer {
  const { result } = body;
  if (result === null) return answerOf(body, 'The job still runs. Call wait_for_job, or look again in a minute.');
  return answerOf(body, `The job is over: ${'failure' in result ? 'it failed' : result.outcome}.`);
}

/** With what to do next, but where a repetition could write twice. */
function answerOf(body: Pick<JobBody, 'workflowId' | 'state'>, next: string): ToolAnswer {
  if (body.state?.phase === 'needsAttention') return advised(body, `${askAPerson(body)} Do not start the job again.`);
  if (body.state?.outcome !== 'UnknownOutcome') return { body, next };
  const ask = 'Nobody knows whether a write arrived upstream. Ask whoever operates agent-jobs to look there.';
  return advised(body, `${ask} Do not start the job again before that.`);
}

/** In the body too: many clients show an agent nothing else. */
function advised(body: object, advice: string): ToolAnswer {
  return { body: { ...body, advice }, next: advice };
}

function askAPerson({ workflowId }: Pick<JobBody, 'workflowId'>): string {
  return (
    'The job waits for a person: nobody knows whether a write arrived upstream. Ask whoever operates agent-jobs to ' +
    `look, and to settle it: npx agent-jobs resolve ${workflowId}.`
  );
}

function propertiesOf({ properties }: JsonSchema): Properties {
  return properties as Properties;
}

function text(description: string): JsonSchema {
  return { type: 'string', description };
}

function inputOf(properties: Properties, ...required: string[]): JsonSchema {
  return plainSchema({ type: 'object', properties, required });
}
