/**
 * What callers do with jobs: the one table of operations. The routes of `serve`, its OpenAPI document, the tools of
 * agents and the commands of the command line are derived from it.
 */
import { ADOPT, ATTACH_JOB, ATTRIBUTION, CREATE_JOB, FOLLOW_UP, JOB_OPTIONS, TAGS } from './agent-job/fields.js';
import {
  agentJobOf,
  type Attribution,
  JOB_OUTCOMES,
  type JobState,
  LIMIT,
  PHASES,
  type ResolveUnknownInput,
  SHOWN_WAITING_FOR,
} from './contract.js';
import { cutToBytes } from './contract/shared.js';
import { ID, type JsonSchema, oneOf, optional, text, TEXT } from './contract/kinds.js';
import { type Arguments, described, KEY, PAGE_SIZE, published, TIME } from './operations/arguments.js';
import { type JobEnd, resultOf, type Waiter, whileWanted } from './operations/job-end.js';
import type { AgentJobs, FollowUpOptions, JobFilter, JobHandle, StartRequest } from './starter.js';

/** One call of an operation, by whatever way it came. */
export interface OperationCall extends Waiter {
  readonly jobs: AgentJobs;
  /** The project of a call that names one. */
  readonly projectId: string | null;
  /** The job that the call names; sends no request. */
  readonly job: () => JobHandle;
  readonly args: Readonly<Record<string, unknown>>;
  /** How long the answer may wait for an end or an outcome; 0: not at all. */
  readonly waitMs: number;
  /** The name of the key that came with the call. */
  readonly keyName: string | null;
}

/** A row of the table. */
export interface Operation {
  /** OpenAPI's name; in snake case it is that of the tool. */
  readonly id: string;
  readonly command: string;
  /** A sentence without its full stop. */
  readonly summary: string;
  /** Whether the call names a job, or a project alone. */
  readonly of: 'job' | 'project';
  readonly arguments: Arguments;
  /** The arguments that the command line takes without a flag, in order. */
  readonly positional?: readonly string[];
  readonly run: (call: OperationCall) => Promise<object>;
  /** Null if HTTP has no path for it. */
  readonly http: HttpCall | null;
  /** Null if agents do not see it. */
  readonly agents: AgentCall | null;
  /** What a person at a terminal is asked before. */
  readonly question?: string;
  /** What a person reads after the workflow id in place of the answer. */
  readonly report?: string;
}

interface HttpCall {
  readonly method: 'GET' | 'POST';
  /** Below the address of the project or the job. */
  readonly path: string;
  /** The place of the arguments: the body, the query, or none. */
  readonly takes: 'body' | 'query' | 'nothing';
  /** By status, what the body is besides problems. */
  readonly answers: Readonly<Record<number, JsonSchema>>;
  /** The status of a body; default 200. */
  readonly status?: (body: object) => number;
  /** The argument that the header `Idempotency-Key` gives. */
  readonly idempotencyKey?: 'key' | 'id';
  /** Whether `Prefer: wait` makes the answer wait. */
  readonly waits?: boolean;
}

interface AgentCall {
  /** What an agent reads after the summary. */
  readonly more?: string;
  readonly isReadOnly?: boolean;
  /** How long a call may wait: as long as it asks for, or so many milliseconds. */
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

/** An outage of Temporal is reported within 10 seconds. */
const START_TIMEOUT_MS = 9_000;
const STATE_TIMEOUT_MS = 10_000;
/** For the result of a run that is over: another may have begun since. */
const RESULT_TIMEOUT_MS = 5_000;
/** Clients of tools cut off calls at 60 seconds. */
const OUTCOME_TIMEOUT_MS = 20_000;

/** A reference to a shape of OpenAPI. */
function shape(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

const NOTHING: JsonSchema = { type: 'object' };
const CREATE = { prompt: optional(CREATE_JOB.prompt), ...JOB_OPTIONS };
const ATTACH = { jobId: optional(ATTACH_JOB.jobId), usedFollowUpIds: ATTACH_JOB.usedFollowUpIds };
const SINCE = { ...ADOPT.since, schema: TIME.schema };
const DECISION: Arguments = {
  action: described(
    'What came of it: adopt (a create made jobId), delivered (a follow-up arrived), retry (send it), or abandon.',
    oneOf('adopt', 'delivered', 'retry', 'abandon'),
  ),
  jobId: described('With adopt: the job that the create made.', optional(ID)),
  force: described(
    'With adopt: also a job that is not read just now, or is older, or of another workflow.',
    ADOPT.force,
  ),
  ...published('ResolveUnknownInput', { since: SINCE, followUpId: ADOPT.followUpId, ...ATTRIBUTION }),
};

const START: Arguments = {
  key: described('The key of the job: a start repeated with it makes no second job.', optional(KEY)),
  ...published('CreateJobInput', CREATE),
  ...published('AttachJobInput', ATTACH),
};

/** Two of its words differ in case alone, and generators would make one name of them: the schema names none. */
const OUTCOME = { ...optional(oneOf(...JOB_OUTCOMES)), schema: () => TEXT.schema() };

const FILTERS: Arguments = {
  phase: described('Only jobs whose workflows are in this phase.', optional(oneOf(...PHASES))),
  outcome: described('Only jobs that ended so, such as completed or Canceled.', OUTCOME),
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
  start: {
    id: 'startJob',
    command: 'start',
    summary: 'Start a job, or join the one that the same key started',
    of: 'project',
    arguments: START,
    positional: ['prompt'],
    run: startJob,
    http: {
      ...{ method: 'POST', path: '/jobs', takes: 'body', idempotencyKey: 'key' },
      answers: { 200: shape('StartedJob'), 201: shape('StartedJob') },
      status: (body) => ((body as { isNew: boolean }).isNew ? 201 : 200),
    },
    agents: {
      more: 'It answers at once. The job may run for hours and open a pull request. Default key: made of the prompt.',
      needs: published('CreateJobInput', { prompt: CREATE_JOB.prompt }),
      lacks: ['jobId', 'usedFollowUpIds'],
    },
  },
  followUp: {
    id: 'sendFollowUp',
    command: 'follow-up',
    summary: 'Send a further instruction to a job, also after its end',
    of: 'job',
    arguments: published('FollowUpInput', FOLLOW_UP),
    positional: ['prompt'],
    run: sendFollowUp,
    http: {
      ...{ method: 'POST', path: '/follow-ups', takes: 'body', idempotencyKey: 'id', waits: true },
      answers: { 200: shape('FollowUpAnswer'), 202: shape('QueuedFollowUp') },
      status: (body) => ((body as { state: string }).state === 'queued' ? 202 : 200),
    },
    agents: { more: 'Repeated with the same id, it is delivered once.', waits: OUTCOME_TIMEOUT_MS },
  },
  state: {
    id: 'getJob',
    command: 'state',
    summary: 'Show what a job is doing, or did',
    of: 'job',
    arguments: {},
    run: getJob,
    http: { method: 'GET', path: '', takes: 'nothing', answers: { 200: shape('Job') }, waits: true },
    agents: { more: 'It has the result once the run is over.', isReadOnly: true },
  },
  wait: {
    id: 'waitForJob',
    command: 'wait',
    summary: 'Wait for the end of a job',
    of: 'job',
    arguments: {},
    run: getJob,
    http: null,
    agents: {
      more: 'It answers earlier when its time is over: then call it again, or do something else meanwhile.',
      isReadOnly: true,
      waits: 'asked',
    },
  },
  list: {
    id: 'listJobs',
    command: 'list',
    summary: 'List jobs, one row a job',
    of: 'project',
    arguments: FILTERS,
    run: listJobs,
    http: { method: 'GET', path: '/jobs', takes: 'query', answers: { 200: shape('JobPage') } },
    agents: {
      more: 'Those that run first, by their start, then those that have ended, by their end, the newest first.',
      isReadOnly: true,
    },
  },
  pollNow: {
    id: 'pollNow',
    command: 'poll-now',
    summary: 'Read a job from the upstream at once',
    of: 'job',
    arguments: published('Attribution', ATTRIBUTION),
    run: async (call) => {
      await call.job().pollNow({ ...byWhom(call), signal: call.gone });
      return {};
    },
    http: { method: 'POST', path: '/poll-now', takes: 'nothing', answers: { 202: NOTHING }, status: () => 202 },
    agents: null,
    report: 'will be read now',
  },
  cancel: {
    id: 'cancelJob',
    command: 'cancel',
    summary: "End a job's workflow; the remote job goes on",
    of: 'job',
    arguments: published('Attribution', ATTRIBUTION),
    run: async (call) => {
      await call.job().cancel({ ...byWhom(call), signal: call.gone });
      return {};
    },
    http: { method: 'POST', path: '/cancel', takes: 'nothing', answers: { 202: NOTHING }, status: () => 202 },
    agents: null,
    question: 'end its workflow? The remote job goes on.',
    report: 'is asked to end, unless it has ended; a write in flight is finished first',
  },
  resolve: {
    id: 'resolveJob',
    command: 'resolve',
    summary: 'Resolve an in-doubt write: did the upstream take it?',
    of: 'job',
    arguments: DECISION,
    positional: ['action'],
    run: async (call) =>
      call.job().resolve({ ...call.args, since: inFull(call.args['since']), ...byWhom(call) } as ResolveUnknownInput),
    http: { method: 'POST', path: '/resolve', takes: 'body', answers: { 200: shape('JobState') } },
    // A person resolves it: no agent may.
    agents: null,
  },
} satisfies Record<string, Operation>;

/** Starts a job, or joins it; the state is null if no worker reports it in time: the job is started all the same. */
async function startJob({ jobs, projectId, args }: OperationCall) {
  const key = KEY.check(args['key'], 'key');
  const job = await jobs.start({ ...args, projectId, key } as StartRequest, { timeoutMs: START_TIMEOUT_MS });
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
  return job.state({ timeoutMs: STATE_TIMEOUT_MS }).catch(() => null);
}

/** Reads a job; a call that waits, when its run is over. */
async function getJob(call: OperationCall): Promise<JobBody> {
  const job = call.job();
  // Whether it ended, and how, is read below.
  if (call.waitMs > 0) await whileWanted(call, call.waitMs, (signal) => job.result({ signal })).catch(() => {});
  call.gone.throwIfAborted();
  const state = await job.state({ signal: call.gone, timeoutMs: STATE_TIMEOUT_MS });
  const isOver = state.phase === 'done';
  const end = isOver ? await whileWanted(call, RESULT_TIMEOUT_MS, (signal) => resultOf(job, state, signal)) : null;
  return bodyOf(job, state, end);
}

/** Queues a follow-up; a call that waits, until its outcome is known. */
async function sendFollowUp({ job, args, waitMs: timeoutMs, gone: signal }: OperationCall) {
  const { prompt, ...options } = args as Record<'prompt', string> & FollowUpOptions & OperationCall['args'];
  if (timeoutMs > 0) return job().sendFollowUp(prompt, { ...options, timeoutMs, signal });
  const { id, checked } = await job().followUp(prompt, { ...options, timeoutMs: START_TIMEOUT_MS });
  return { id, state: 'queued', checked };
}

async function listJobs({ jobs, projectId, args, gone: signal }: OperationCall) {
  const { tag: tags, limit: pageSize, cursor, ...others } = args as Record<string, never>;
  const filter: JobFilter = { ...others, projectId, tags };
  const { jobs: found, nextCursor } = await jobs.listPage(filter, { pageSize, cursor, signal });
  return { jobs: found.map((job) => ({ key: agentJobOf(job.workflowId)?.key ?? null, ...job })), nextCursor };
}

/** A client that reads times as such writes one in its own way, and `since` must be the text of the state. */
function inFull(time: unknown): unknown {
  const isTime = typeof time === 'string' && !Number.isNaN(Date.parse(time));
  return isTime ? new Date(time).toISOString() : time;
}

/** Who decides: the key's own name comes first, whatever the caller writes. */
function byWhom({ args, keyName }: OperationCall): Attribution {
  const by = ATTRIBUTION.by.check(args['by'], 'by');
  const note = ATTRIBUTION.note.check(args['note'], 'note');
  const both = keyName === null || by === null ? (keyName ?? by) : `${keyName}: ${by}`;
  return { by: both === null ? null : cutToBytes(both, LIMIT.decisionByBytes), note };
}
