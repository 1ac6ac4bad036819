/**
 * What callers do with jobs: the one table of operations. The routes of `serve`, its OpenAPI document, the tools of
 * agents and the commands of the command line are derived from it.
 */
import { checkJobInput, parseResolution } from './agent-job/input.js';
import {
  ADOPT,
  ATTACH_JOB,
  ATTRIBUTION,
  CREATE_JOB,
  DECISION_ACTION,
  FOLLOW_UP,
  JOB_OPTIONS,
  TAGS,
} from './agent-job/fields.js';
import { agentJobOf, JOB_OUTCOMES, LIMIT, PHASES, SHOWN_WAITING_FOR } from './contract.js';
import type { Attribution, JobState } from './contract.js';
import { cutToBytes } from './contract/shared.js';
import { ID, type JsonSchema, oneOf, optional, text, TEXT } from './contract/kinds.js';
import {
  type Arguments,
  checkArguments,
  described,
  type Given,
  KEY,
  PAGE_SIZE,
  published,
  TIME,
  type Written,
} from './operations/arguments.js';
import { sendFollowUp } from './operations/follow-up.js';
import { type JobEnd, resultOf, type Waiter, whileWanted } from './operations/job-end.js';
import type { AgentJobs, JobHandle } from './starter.js';

/** One call of an operation, by whatever way it came; `run` checks the arguments. */
export interface OperationCall<Args = Written> extends Waiter {
  readonly jobs: AgentJobs;
  readonly args: Args;
  /** How long the answer may wait for an end or an outcome; 0: not at all. */
  readonly waitMs: number;
  /** How long a request to Temporal may take; by default an outage is reported within 10 seconds. */
  readonly limitMs?: number;
  readonly keyName: string | null;
}

/** A call that names a project, if it names anything. */
interface ProjectCall<Args = Written> extends OperationCall<Args> {
  readonly projectId: string | null;
}

interface JobCall<Args = Written> extends OperationCall<Args> {
  readonly job: JobHandle;
}

interface Description<Fields extends Arguments> {
  /** OpenAPI's name; in snake case it is that of the tool. */
  readonly id: string;
  readonly command: string;
  /** A sentence without its full stop. */
  readonly summary: string;
  readonly arguments: Fields;
  /** The arguments that the command line takes without a flag, in order. */
  readonly positional?: readonly string[];
  /** Null if HTTP has no path for it. */
  readonly http: HttpCall | null;
  /** Null if agents do not see it. */
  readonly agents: AgentCall | null;
  /** What a person at a terminal is asked before. */
  readonly question?: string;
  /** What a person reads after the workflow id in place of the answer. */
  readonly report?: string;
}

interface ProjectOperation<Fields extends Arguments = Arguments, Body = object> extends Description<Fields> {
  readonly of: 'project';
  readonly run: (call: ProjectCall) => Promise<Body>;
}

/** A row of an operation on one job. */
export interface JobOperation<Fields extends Arguments = Arguments, Body = object> extends Description<Fields> {
  readonly of: 'job';
  readonly run: (call: JobCall) => Promise<Body>;
}

/** A row of the table. */
export type Operation = ProjectOperation | JobOperation;

/** How HTTP calls an operation. */
export interface HttpCall {
  readonly method: 'GET' | 'POST';
  /** Below the address of the project or the job. */
  readonly path: string;
  /** The place of the arguments: the body, the query, or none. */
  readonly takes: 'body' | 'query' | 'nothing';
  /** By status, what the body is besides problems. */
  readonly answers: Readonly<Record<number, JsonSchema>>;
  /** The status of a body with one value in a field, or of every body; default 200. */
  readonly status?: { readonly field: string; readonly value: unknown; readonly status: number } | number;
  /** The argument that the header `Idempotency-Key` gives. */
  readonly idempotencyKey?: 'key' | 'id';
  readonly waits?: boolean;
}

interface AgentCall {
  /** What an agent reads after the summary. */
  readonly more?: string;
  readonly isReadOnly?: boolean;
  /** How long a call may wait: for the time that it asks for, or for this number of milliseconds. */
  readonly waits?: 'asked' | number;
  /** What an agent must give, and what it can't. */
  readonly needs?: Arguments;
  readonly lacks?: readonly string[];
}

/** What is known of a job; a result or a failure once its run is over. */
export interface JobBody extends JobEnd {
  readonly key: string | null;
  readonly workflowId: string;
  /** Of Temporal's web UI; null if its address is not known. */
  readonly url: string | null;
  /** That of the result, or the type of the failure. */
  readonly outcome: string | null;
  readonly prLink: string | null;
  readonly state: JobState | null;
}

const START_LIMIT_MS = 9_000;
const STATE_LIMIT_MS = 10_000;
/** For the result of a run that is over: another may have begun since. */
const RESULT_TIMEOUT_MS = 5_000;
/** Clients of tools cut off calls at 60 seconds. */
const OUTCOME_TIMEOUT_MS = 20_000;

function shape(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

const NO_FIELDS: JsonSchema = { type: 'object' };
const CREATE = { prompt: optional(CREATE_JOB.prompt), ...JOB_OPTIONS };
const { usedFollowUpIds, promptHashes } = ATTACH_JOB;
const ATTACH = { jobId: optional(ATTACH_JOB.jobId), usedFollowUpIds, promptHashes };
const SINCE = { ...ADOPT.since, schema: TIME.schema };
const DECISION = {
  action: described(
    'What came of it: adopt (a create made jobId), delivered (a follow-up arrived), retry (send it), or abandon.',
    DECISION_ACTION,
  ),
  jobId: described('With adopt: the job that the create made.', optional(ID)),
  force: described(
    'With adopt: also a job that is not read just now, or is older, or of another workflow.',
    ADOPT.force,
  ),
  ...published('ResolveUnknownInput', { since: SINCE, followUpId: ADOPT.followUpId, ...ATTRIBUTION }),
};

const START = {
  key: described('The key of the job: a start repeated with it makes no second job.', optional(KEY)),
  ...published('CreateJobInput', CREATE),
  ...published('AttachJobInput', ATTACH),
};

/** Two of its words differ in case alone, and generators would make one name of them: the schema names none. */
const OUTCOME_FILTER = { ...optional(oneOf(...JOB_OUTCOMES)), schema: () => TEXT.schema() };

const FILTERS = {
  phase: described('Only jobs whose workflows are in this phase.', optional(oneOf(...PHASES))),
  outcome: described('Only jobs that ended so, such as completed or Canceled.', OUTCOME_FILTER),
  status: described(
    "Only jobs of this status, the upstream's own, as last read.",
    optional(text({ maxBytes: LIMIT.recordBytes })),
  ),
  waitingFor: described('Only running jobs that wait for this.', optional(oneOf(...SHOWN_WAITING_FOR))),
  jobId: described("Only the job that has this id of the upstream's.", optional(ID)),
  prLink: described('Only the jobs of this pull request, as one of their runs has seen it last.', optional(TEXT)),
  tag: described('Only jobs that have all of these tags.', optional(TAGS)),
  batch: described('Only jobs that were started with this label.', optional(text({ maxBytes: LIMIT.batchBytes }))),
  startedAfter: described('Only runs that started at this time or later.', optional(TIME)),
  startedBefore: described('Only runs that started before this time.', optional(TIME)),
  endedAfter: described('Only runs that ended at this time or later.', optional(TIME)),
  limit: described('At most so many jobs; default 100.', optional(PAGE_SIZE)),
  cursor: described('The `nextCursor` of the page before.', optional(TEXT)),
};

/** All of them, in the order of help. */
export const OPERATIONS = {
  start: ofProject({
    id: 'startJob',
    command: 'start',
    summary: 'Start a job, or join the one that the same key started',
    arguments: START,
    positional: ['prompt'],
    run: startJob,
    http: {
      method: 'POST',
      path: '/jobs',
      takes: 'body',
      idempotencyKey: 'key',
      answers: { 200: shape('StartedJob'), 201: shape('StartedJob') },
      status: { field: 'isNew', value: true, status: 201 },
    },
    agents: {
      more: 'It answers at once. The job may run for hours and open a pull request. Default key: made of the prompt.',
      needs: published('CreateJobInput', { prompt: CREATE_JOB.prompt }),
      lacks: ['jobId', 'usedFollowUpIds', 'promptHashes'],
    },
  }),
  followUp: ofJob({
    id: 'sendFollowUp',
    command: 'follow-up',
    summary: 'Send a further instruction to a job, also after its end',
    arguments: published('FollowUpInput', FOLLOW_UP),
    positional: ['prompt'],
    run: (call) => sendFollowUp({ limitMs: START_LIMIT_MS, ...call }, call.args),
    http: {
      method: 'POST',
      path: '/follow-ups',
      takes: 'body',
      idempotencyKey: 'id',
      waits: true,
      answers: { 200: shape('FollowUpAnswer'), 202: shape('QueuedFollowUp') },
      status: { field: 'state', value: 'queued', status: 202 },
    },
    agents: { more: 'Repeated with the same id, it is delivered once.', waits: OUTCOME_TIMEOUT_MS },
  }),
  state: ofJob({
    id: 'getJob',
    command: 'state',
    summary: 'Show what a job is doing, or did',
    arguments: {},
    run: getJob,
    http: { method: 'GET', path: '', takes: 'nothing', answers: { 200: shape('Job') }, waits: true },
    agents: { more: 'It has the result once the run is over.', isReadOnly: true },
  }),
  wait: ofJob({
    id: 'waitForJob',
    command: 'wait',
    summary: 'Wait for the end of a job',
    arguments: {},
    run: getJob,
    http: null,
    agents: {
      more: 'It answers earlier when its time is over: then call it again, or do something else meanwhile.',
      isReadOnly: true,
      waits: 'asked',
    },
  }),
  list: ofProject({
    id: 'listJobs',
    command: 'list',
    summary: 'List jobs, one row a job',
    arguments: FILTERS,
    run: listJobs,
    http: { method: 'GET', path: '/jobs', takes: 'query', answers: { 200: shape('JobPage') } },
    agents: {
      more: 'Those that run first, by their start, then those that have ended, by their end, the newest first.',
      isReadOnly: true,
    },
  }),
  pollNow: ofJob({
    id: 'pollNow',
    command: 'poll-now',
    summary: 'Read a job from the upstream at once',
    arguments: published('Attribution', ATTRIBUTION),
    run: async (call) => {
      await call.job.pollNow({ ...byWhom(call), signal: call.gone });
      return {};
    },
    http: { method: 'POST', path: '/poll-now', takes: 'nothing', answers: { 202: NO_FIELDS }, status: 202 },
    agents: null,
    report: 'will be polled now',
  }),
  cancel: ofJob({
    id: 'cancelJob',
    command: 'cancel',
    summary: "End a job's workflow; the remote job goes on",
    arguments: published('Attribution', ATTRIBUTION),
    run: async (call) => {
      await call.job.cancel({ ...byWhom(call), signal: call.gone });
      return {};
    },
    http: { method: 'POST', path: '/cancel', takes: 'nothing', answers: { 202: NO_FIELDS }, status: 202 },
    agents: null,
    question: 'end its workflow? The remote job goes on.',
    report: 'is asked to end, unless it has ended; a write in flight is finished first',
  }),
  resolve: ofJob({
    id: 'resolveJob',
    command: 'resolve',
    summary: 'Resolve an in-doubt write: did the upstream take it?',
    arguments: DECISION,
    positional: ['action'],
    run: async (call) => {
      const decision = { ...call.args, since: inFull(call.args.since), ...byWhom(call) };
      return call.job.resolve(parseResolution(decision), { signal: call.gone });
    },
    http: { method: 'POST', path: '/resolve', takes: 'body', answers: { 200: shape('JobState') } },
    // A person resolves it: no agent may.
    agents: null,
  }),
};

function ofProject<Fields extends Arguments, Body extends object>(
  row: Description<Fields> & { run: (call: ProjectCall<Given<Fields>>) => Promise<Body> },
): ProjectOperation<Fields, Body> {
  return { ...row, of: 'project', run: async (call) => row.run(checked(row, call)) };
}

function ofJob<Fields extends Arguments, Body extends object>(
  row: Description<Fields> & { run: (call: JobCall<Given<Fields>>) => Promise<Body> },
): JobOperation<Fields, Body> {
  return { ...row, of: 'job', run: async (call) => row.run(checked(row, call)) };
}

function checked<Fields extends Arguments, Call extends OperationCall>(
  { arguments: fields }: Description<Fields>,
  call: Call,
): Omit<Call, 'args'> & { args: Given<Fields> } {
  const { args } = call;
  checkArguments(fields, args);
  return { ...call, args };
}

/** Starts a job, or joins it; the state is null if no worker reports it in time: the job is started all the same. */
async function startJob({ jobs, projectId, args }: ProjectCall<Given<typeof START>>) {
  const key = KEY.check(args.key, 'key');
  const request = { ...args, projectId, key };
  checkJobInput(request);
  const job = await jobs.start(request, { timeoutMs: START_LIMIT_MS });
  const { result: _, failure: __, ...body } = bodyOf(job, await stateOrNull(job), null);
  return { ...body, key, isNew: job.isNew };
}

function bodyOf({ key, workflowId, url }: JobHandle, state: JobState | null, end: JobEnd | null): JobBody {
  const { result, failure } = end ?? { result: null, failure: null };
  // A result of an older release has no link of its own.
  const prLink = result?.prLink ?? state?.prLink ?? null;
  const outcome = result?.outcome ?? failure?.type ?? state?.outcome ?? null;
  return { key, workflowId, url, outcome, prLink, state, result, failure };
}

function stateOrNull(job: JobHandle): Promise<JobState | null> {
  return job.state({ timeoutMs: STATE_LIMIT_MS }).catch(() => null);
}

/** Reads a job; a call that waits, when its run is over. */
async function getJob(call: JobCall<object>): Promise<JobBody> {
  const { job, limitMs = STATE_LIMIT_MS } = call;
  // Whether it ended, and how, is read below.
  if (call.waitMs > 0) await whileWanted(call, call.waitMs, (signal) => job.result({ signal })).catch(() => {});
  call.gone.throwIfAborted();
  const state = await job.state({ signal: call.gone, timeoutMs: limitMs });
  const isOver = state.phase === 'done';
  const end = isOver ? await whileWanted(call, RESULT_TIMEOUT_MS, (signal) => resultOf(job, state, signal)) : null;
  return bodyOf(job, state, end);
}

async function listJobs({ jobs, projectId, args, gone: signal }: ProjectCall<Given<typeof FILTERS>>) {
  const { tag: tags, limit: pageSize, cursor, ...others } = args;
  const { jobs: found, nextCursor } = await jobs.listPage({ ...others, projectId, tags }, { pageSize, cursor, signal });
  return { jobs: found.map((job) => ({ key: agentJobOf(job.workflowId)?.key ?? null, ...job })), nextCursor };
}

/** A client that reads times as such writes one in its own way, and `since` must be the text of the state. */
function inFull(time: string | null | undefined): string | null | undefined {
  return time == null || Number.isNaN(Date.parse(time)) ? time : new Date(time).toISOString();
}

/** Who decides: the key's own name comes first, whatever the caller writes. */
function byWhom({ args, keyName }: OperationCall<Attribution>): Attribution {
  const { by = null, note = null } = args;
  const both = keyName === null || by === null ? (keyName ?? by) : `${keyName}: ${by}`;
  return { by: both === null ? null : cutToBytes(both, LIMIT.decisionByBytes), note };
}
