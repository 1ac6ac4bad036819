/**
 * The tools of an agent, derived from the table of operations. Only a person settles a write in doubt: there is no tool
 * for it, and the answer about a job that needs one says whom to ask.
 */
import { createHash } from 'node:crypto';
import { checkObject, type Kind, optional, whole } from '../../contract/kinds.js';
import { checkKnownFields } from '../../client/settings.js';
import { type JobBody, type Operation, type OperationCall, OPERATIONS } from '../../operations.js';
import { type Arguments, described, KEY, plainObject, PROJECT } from '../../operations/arguments.js';
import { type Caller, checkMaySee } from '../keys.js';

/** One call of a tool. */
interface ToolCall extends Pick<OperationCall, 'jobs' | 'args' | 'gone' | 'ending'> {
  caller: Caller;
  /** The longest time that it may wait. */
  maxWaitMs: number;
}

/** Clients cut off calls at 60 or 120 seconds. */
export const DEFAULT_WAIT_MS = 50_000;

const PLACE = { projectId: described("The upstream's project.", PROJECT) };
const JOB = { ...PLACE, key: described('The key of the job.', KEY) };
const ANY: Kind<unknown> = { check: (value) => value, schema: () => ({ type: 'integer', minimum: 0 }) };
const SECONDS = described('How long to wait, in seconds; default as long as this server allows.', optional(ANY));

/** What an agent knows of each tool, in the order of the table, and what it does. */
export const TOOLS = Object.values<Operation>(OPERATIONS).flatMap((operation) => {
  const { id, summary, agents, of, arguments: all } = operation;
  if (agents === null) return [];
  const { more, needs = [], lacks = [], isReadOnly = false, waits } = agents;
  const own = Object.entries(all).filter(([name]) => !lacks.includes(name));
  const taken: Arguments = {
    ...(of === 'job' ? JOB : PLACE),
    ...Object.fromEntries(
      own.map(([name, kind]) => [name, needs.includes(name) ? { ...kind, isOptional: false } : kind]),
    ),
    ...(waits === 'asked' && { timeoutSeconds: SECONDS }),
  };
  const name = id.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const description = [summary, more].filter(Boolean).join('. ').replace(/\.?$/, '.');
  const isIdempotent = operation.http?.idempotencyKey !== 'id';
  const told = { title: summary, description, input: plainObject(taken), isReadOnly, isIdempotent };
  return [{ name, ...told, operation, arguments: taken }];
});

/** Checks the arguments, and whether the caller may see the project; then runs the tool, and says what to do next. */
export async function callTool(tool: (typeof TOOLS)[number], call: ToolCall): Promise<object> {
  const { operation, input, arguments: taken } = tool;
  checkKnownFields(checkObject(call.args, 'arguments'), input, null);
  for (const [name, kind] of Object.entries(taken)) kind.check(call.args[name], name);
  const { projectId, key, timeoutSeconds, ...args } = call.args as Record<'projectId', string> & ToolCall['args'];
  checkMaySee(call.caller, projectId);
  const named = (key ?? (operation.of === 'project' ? keyOf(projectId, String(args['prompt'])) : '')) as string;
  const body = await operation.run({
    ...{ ...call, projectId, keyName: call.caller.name },
    job: () => call.jobs.handle({ projectId, key: named }),
    args: 'key' in operation.arguments ? { ...args, key: named } : args,
    waitMs: waitOf(operation.agents?.waits, timeoutSeconds, call.maxWaitMs),
  });
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

const ASK = 'No one can tell whether a write arrived upstream. Ask the person who operates agent-jobs to look there';

/** What an agent does with an answer: above all, what it must not repeat, for that could write twice. */
function nextStep(body: Partial<JobBody> & { isNew?: boolean; nextCursor?: string | null }): string {
  const { state, result, isNew, key, nextCursor, workflowId = '' } = body;
  // Of a follow-up.
  if (typeof state === 'string') {
    if (state === 'unknown') return `${ASK}, and to settle it: npx agent-jobs attention. Do not send it again.`;
    const isTaken = ['sent', 'queued'].includes(state);
    return `It is ${state as string}.${isTaken ? ' Call wait_for_job for what comes of it.' : ''}`;
  }
  if (state?.phase === 'needsAttention') {
    const settle = `npx agent-jobs resolve ${workflowId}`;
    return `The job waits for a person. ${ASK}, and to settle it: ${settle}. Do not start the job again.`;
  }
  if (state?.outcome === 'UnknownOutcome') return `${ASK}. Do not start the job again before that.`;
  if (isNew !== undefined) {
    const joined = isNew ? 'The job was started.' : 'The key already named this job: no second one was started.';
    return `${joined} Its key is ${key}. Call wait_for_job for its result.`;
  }
  if (result === null) return 'The job still runs. Call wait_for_job, or look again in a minute.';
  if (result !== undefined) return `The job is over: ${'failure' in result ? 'it failed' : result.outcome}.`;
  return nextCursor == null ? 'That is all.' : 'There are more: give nextCursor as cursor.';
}
