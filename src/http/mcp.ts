/**
 * The Model Context Protocol: tools of agents, derived from the table of operations. Each answer is a short text, and
 * the body of HTTP's answer, with what to do next. Only a person resolves a write in doubt: no tool does.
 */
import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import type { CallToolResult, ServerContext, StandardSchemaWithJSON } from '@modelcontextprotocol/server';
import { firstOf } from '../client/concurrently.js';
import { checkKnownFields } from '../client/settings.js';
import type { FollowUpState } from '../contract.js';
import { checkObject, type JsonSchema, type Kind, optional, whole } from '../contract/kinds.js';
import { type JobBody, type Operation, type OperationCall, OPERATIONS } from '../operations.js';
import { type Arguments, checkArguments, described, KEY, plainObject, PROJECT } from '../operations/arguments.js';
import { STREAM_MS } from './events.js';
import type { JobSummary } from '../starter.js';
import { type Caller, checkMaySee } from './keys.js';
import { checkOrigin } from './origins.js';
import { problemOf, RpcProblem } from './problem.js';
import type { Answer, Call } from './request.js';

interface ToolCall extends Pick<OperationCall, 'jobs' | 'args' | 'gone' | 'ending'> {
  caller: Caller;
  maxWaitMs: number;
}

/** Clients cut off calls at 60 or 120 seconds. */
const DEFAULT_WAIT_MS = 50_000;

const PROJECT_ARGUMENTS = { projectId: described("The upstream's project.", PROJECT) };
const JOB_ARGUMENTS = { ...PROJECT_ARGUMENTS, key: described('The key of the job.', KEY) };
const ANY: Kind<unknown> = { check: (value) => value, schema: () => ({ type: 'integer', minimum: 0 }) };
const SECONDS = described('How long to wait, in seconds; default as long as this server allows.', optional(ANY));

/** What an agent knows of each tool, in the order of the table, and what it does. */
export const TOOLS = Object.values<Operation>(OPERATIONS).flatMap((operation) => {
  const { id, summary, agents, of, arguments: all } = operation;
  if (agents === null) return [];
  const { more, needs = {}, lacks = [], isReadOnly = false, waits } = agents;
  const own = Object.entries(all).filter(([name]) => !lacks.includes(name));
  const taken: Arguments = {
    ...(of === 'job' ? JOB_ARGUMENTS : PROJECT_ARGUMENTS),
    ...Object.fromEntries(own),
    ...needs,
    ...(waits === 'asked' && { timeoutSeconds: SECONDS }),
  };
  const name = id.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const description = [summary, more].filter(Boolean).join('. ').replace(/\.?$/, '.');
  const isIdempotent = operation.http?.idempotencyKey !== 'id';
  const shown = { title: summary, description, input: plainObject(taken), isReadOnly, isIdempotent };
  return [{ name, ...shown, operation, arguments: taken }];
});

type Tool = (typeof TOOLS)[number];

/** Checks the arguments, and whether the caller may see the project; then runs the tool, and says what to do next. */
async function callTool(tool: Tool, call: ToolCall): Promise<Body & { next: string }> {
  const { operation, input, arguments: taken } = tool;
  const { jobs, caller, args: written } = call;
  checkKnownFields(checkObject(written, 'arguments'), input, null);
  checkArguments(taken, written);
  checkArguments(PROJECT_ARGUMENTS, written);
  const { projectId, key, timeoutSeconds, ...args } = written;
  checkMaySee(caller, projectId);
  const waitMs = waitOf(operation.agents?.waits, timeoutSeconds, call.maxWaitMs);
  const given = { ...call, waitMs, keyName: caller.name };
  const made = () => key ?? keyOf(projectId, String(args['prompt']));
  const body = await (operation.of === 'job'
    ? operation.run({ ...given, args, job: jobs.handle({ projectId, key: KEY.check(key, 'key') }) })
    : operation.run({ ...given, projectId, args: 'key' in operation.arguments ? { ...args, key: made() } : args }));
  return { ...body, next: nextStep(body) };
}

function waitOf(waits: number | 'asked' | undefined, seconds: unknown, maxWaitMs: number): number {
  if (waits !== 'asked') return Math.min(waits ?? 0, maxWaitMs);
  const maxSeconds = Math.floor(maxWaitMs / 1_000);
  return whole(0, maxSeconds).check(seconds ?? maxSeconds, 'timeoutSeconds') * 1_000;
}

/** Without a key, one that an agent which repeats itself comes to again. */
export function keyOf(project: string, prompt: string): string {
  return `mcp-${createHash('sha256').update(`${project}\n${prompt}`).digest('hex').slice(0, 32)}`;
}

const ASK = 'It is unknown whether a write arrived upstream. Ask the person who operates agent-jobs to check there';

/** The body of any operation that is a tool; `state` is also that of a follow-up. */
type Body = Partial<Omit<JobBody, 'state'>> & {
  readonly id?: string;
  readonly state?: JobBody['state'] | FollowUpState;
  readonly isNew?: boolean;
  readonly jobs?: readonly (JobSummary & Pick<JobBody, 'key'>)[];
  readonly nextCursor?: string | null;
};

/** What an agent reads first: a body of thousands of words would fill its context. */
function shortText(body: Body, next: string): string {
  const { key, outcome, prLink, failure, id, state, jobs, nextCursor } = body;
  if (typeof state === 'string') return JSON.stringify({ id, state, next });
  if (jobs !== undefined) return JSON.stringify({ jobs: jobs.map(shortRow), nextCursor, next });
  const { phase = null, waiting = null } = state ?? {};
  return JSON.stringify({ key, phase, outcome, prLink, waiting, failure: failure?.message, next });
}

function shortRow({ key, title, phase, outcome, prLink, waitingFor }: NonNullable<Body['jobs']>[number]): object {
  return { key, title, phase, outcome, prLink, waitingFor };
}

/** What an agent does with an answer: above all, what it must not repeat, for that could write twice. */
function nextStep(body: Body): string {
  const { state, outcome, result, isNew, key, nextCursor, workflowId = '' } = body;
  // The state of a follow-up.
  if (typeof state === 'string') {
    if (state === 'unknown') return `${ASK}, and to resolve it: npx agent-jobs attention. Do not send it again.`;
    const isTaken = ['sent', 'queued'].includes(state);
    return `It is ${state}.${isTaken ? ' Call wait_for_job for what comes of it.' : ''}`;
  }
  if (state?.phase === 'needsAttention') {
    const command = `npx agent-jobs resolve ${workflowId}`;
    return `The job waits for a person. ${ASK}, and to resolve it: ${command}. Do not start the job again.`;
  }
  if (outcome === 'UnknownOutcome') return `${ASK}. Do not start the job again before that.`;
  if (isNew !== undefined) {
    const joined = isNew ? 'The job was started.' : 'The key already named this job: no second one was started.';
    return `${joined} Its key is ${key}. Call wait_for_job for its result.`;
  }
  if (outcome != null) return `The job is over: ${result === null ? `it failed (${outcome})` : outcome}.`;
  if (result !== undefined) return 'The job still runs. Call wait_for_job, or get_job in a minute.';
  return nextCursor == null ? 'That is all.' : 'There are more: give nextCursor as cursor.';
}

/** The caller, and where errors of this server are reported, never with a key or a prompt. */
interface McpService extends Pick<ToolCall, 'caller' | 'ending'> {
  /** Throws while Temporal is away: each call tries again. */
  connect: () => Promise<ToolCall['jobs']>;
  maxWaitMs?: number | undefined;
  version: string;
  onProblem: (problem: string) => void;
  /** Waits for a turn to make the answer; a program of one caller has none. */
  turn?: Call['turn'];
}

/** Answers a request over HTTP, which stands alone: any server may answer the next one. */
export async function serveMcp(call: Call): Promise<Answer | null> {
  const { service, request, response, args: body, gone, ending } = call;
  checkOrigin(request.headers, service.allowedOrigins);
  checkVersion(request.headers, body);
  // A stream of notifications has no end of its own: it ends as a stream of events does.
  const isStream = body['method'] === 'subscriptions/listen';
  const { signal, release } = firstOf(isStream ? [gone, ending, AbortSignal.timeout(STREAM_MS)] : [gone]);
  const connect = () => Promise.resolve(call.jobs);
  const protocol = createMcpHandler(() =>
    mcpServer({ ...service, ...call, connect, maxWaitMs: service.maxToolWaitMs }),
  );
  // One value each, as the protocol has them.
  const headers = Object.entries(request.headers).map(([name, value]): [string, string] => [name, String(value)]);
  const given = new Request('http://localhost/mcp', { method: 'POST', headers, body: JSON.stringify(body), signal });
  const answer = await protocol.fetch(given, { parsedBody: body });
  // They are sent with the first part, which may find no room.
  response.statusCode = answer.status;
  response.setHeaders(new Map([...answer.headers, ['cache-control', 'no-store'], ['connection', 'close']]));
  const parts = answer.body ? Readable.fromWeb(answer.body as never, { signal: gone }) : [];
  try {
    for await (const part of parts as AsyncIterable<Buffer>) await call.stream(part);
  } finally {
    release();
  }
  return null;
}

/** The SDK does not compare the two in `initialize`. Throws an error of JSON-RPC. */
function checkVersion({ 'mcp-protocol-version': named }: IncomingHttpHeaders, { id, params }: Call['args']): void {
  const { _meta: meta } = (params ?? {}) as { _meta?: Record<string, unknown> };
  const claimed = meta?.['io.modelcontextprotocol/protocolVersion'];
  if (named === undefined || typeof claimed !== 'string' || claimed === named) return;
  throw new RpcProblem(-32_020, `MCP-Protocol-Version names ${String(named)}, and _meta ${claimed}`, id);
}

/** Makes the server of one connection, or of one request over HTTP. */
export function mcpServer(service: McpService): McpServer {
  const server = new McpServer({ name: 'agent-jobs', version: service.version }, { capabilities: { tools: {} } });
  const { access } = service.caller;
  for (const tool of TOOLS.filter(({ isReadOnly }) => isReadOnly || access === 'write')) {
    const { name, title, description, input, isReadOnly: readOnlyHint, isIdempotent: idempotentHint } = tool;
    const annotations = { readOnlyHint, destructiveHint: false, idempotentHint };
    const config = { title, description, inputSchema: unchecked(input), annotations };
    server.registerTool(name, config, (args, context) => answer(service, tool, args, context));
  }
  return server;
}

/** Shows agents the schema and checks nothing: the tool checks, and says what to do. */
function unchecked(schema: JsonSchema): StandardSchemaWithJSON<Record<string, unknown>> {
  const shown = () => schema as Record<string, unknown>;
  const validate = (value: unknown) => ({ value: value as Record<string, unknown> });
  return { '~standard': { version: 1, vendor: 'agent-jobs', validate, jsonSchema: { input: shown, output: shown } } };
}

async function answer(
  { maxWaitMs = DEFAULT_WAIT_MS, ...service }: McpService,
  tool: Tool,
  args: Record<string, unknown>,
  { mcpReq: request }: ServerContext,
): Promise<CallToolResult> {
  const waiting = { maxWaitMs, gone: request.signal };
  try {
    const call = { ...service, ...waiting, jobs: await service.connect(), args };
    const body = await callTool(tool, call);
    await service.turn?.();
    return { content: [text(shortText(body, body.next))], structuredContent: { ...body } };
  } catch (error) {
    const { body, message } = problemOf(error, request.signal.aborted ? () => {} : service.onProblem);
    return { isError: true, content: [text(message)], structuredContent: { ...body } };
  }
}

function text(text: string): { type: 'text'; text: string } {
  return { type: 'text', text };
}
