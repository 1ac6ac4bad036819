/** Decisions about writes in doubt on the command line: how they are checked, read from `--from`, and shown. */
import type { AgentJobStartOptions } from '../agent-job/start-options.js';
import type { AttachJobInput, Attribution, Decision, InDoubtWrite, ResolveUnknownInput } from '../contract.js';
import type { GlobalOptions } from './session.js';
import { countOf, hint, readableTime } from './text.js';

/** A decision about one job's write in doubt. */
export type Resolution = ResolveUnknownInput & { workflowId: string };

/** A job of a workflow that Temporal has forgotten is watched again under the id that it had. */
export interface Attachment {
  workflowId: string;
  action: 'attach';
  by?: undefined;
  options: AgentJobStartOptions;
}

/** A line of `--from`: a decision, or what is wrong with it. */
export type ResolutionLine =
  | { number: number; resolution: Resolution | Attachment; problem: null }
  | { number: number; resolution?: undefined; problem: string };

interface ResolutionFields {
  workflowId?: unknown;
  action?: unknown;
  jobId?: unknown;
  force?: unknown;
  since?: unknown;
  followUpId?: unknown;
  by?: unknown;
  note?: unknown;
}

/** Checks a decision; throws InvalidInputError. */
export async function readResolution({ workflowId, ...decision }: ResolutionFields): Promise<Resolution> {
  const { parseResolution } = await import('../agent-job/input.js');
  return { ...parseResolution(decision), workflowId: await checkWorkflowId(workflowId) };
}

async function checkWorkflowId(workflowId: unknown): Promise<string> {
  const { InvalidInputError } = await import('../contract/input-checks.js');
  if (typeof workflowId !== 'string' || workflowId === '') throw new InvalidInputError('workflowId', 'is missing');
  return workflowId;
}

/**
 * Reads lines of JSON, blank ones left out; a wrong line has a problem and harms no other. A line may name its own
 * author and note.
 */
export async function readResolutionLines(text: string, attribution: Attribution = {}): Promise<ResolutionLine[]> {
  const lines = text.split('\n').map((line, index) => ({ line: line.trim(), number: index + 1 }));
  const filled = lines.filter(({ line }) => line !== '');
  return Promise.all(filled.map(({ line, number }) => readLine(line, number, attribution)));
}

async function readLine(line: string, number: number, { by, note }: Attribution): Promise<ResolutionLine> {
  try {
    const fields = JSON.parse(line) as ResolutionFields | null;
    if (typeof fields !== 'object' || fields === null) throw new Error('is no JSON object');
    if (fields.action == null) throw new Error('has no action');
    if (fields.action === 'attach') return { number, resolution: await readAttachment(fields), problem: null };
    if (typeof fields.since !== 'string') throw new Error('has no since, which names the write that is meant');
    const attributed = { ...fields, by: fields.by ?? by, note: fields.note ?? note };
    return { number, resolution: await readResolution(attributed), problem: null };
  } catch (error) {
    return { number, problem: error instanceof SyntaxError ? 'is no JSON' : (error as Error).message };
  }
}

/** A line of `reconcile`. Under the old id its key is taken again, and none of its follow-ups is sent a second time. */
async function readAttachment(fields: ResolutionFields): Promise<Attachment> {
  const { agentJobStartOptions } = await import('../agent-job/start-options.js');
  const workflowId = await checkWorkflowId(fields.workflowId);
  const { projectId, jobId, usedFollowUpIds, taskQueue } = fields as AttachJobInput & { taskQueue?: string };
  const options = agentJobStartOptions({ projectId, jobId, usedFollowUpIds }, { workflowId, taskQueue });
  return { workflowId, action: 'attach', options };
}

/** What the lines would do, as a question to a person; null where all of them are wrong. */
export function questionOf(lines: readonly ResolutionLine[]): string | null {
  const actions = lines.flatMap(({ resolution }) => (resolution === undefined ? [] : [resolution.action]));
  if (actions.length === 0) return null;
  const wrong = lines.length - actions.length;
  const counts = [...new Set(actions)].map((action) => `${actions.filter((one) => one === action).length} ${action}`);
  const left = wrong === 0 ? '' : ` ${countOf(wrong, 'wrong line')} will be left out.`;
  const decisions = countOf(actions.length, 'decision');
  return `Carry out ${decisions} (${counts.join(', ')}), which can not be undone?${left}`;
}

/**
 * Warns of a `retry` while the first write may still arrive and would then be made twice; null where it no longer may.
 */
export function earlyRetryWarning(
  { workflowId, action }: Resolution,
  inDoubt: InDoubtWrite,
  now: number,
): string | null {
  const { lookAfter } = inDoubt;
  if (action !== 'retry' || now >= Date.parse(lookAfter)) return null;
  const advice = 'unless somebody looks again after that time, retry may double it';
  return `${workflowId}: until ${lookAfter} the write may still be on its way; ${advice}`;
}

/** The lines that show a write in doubt. */
export function inDoubtFields(inDoubt: InDoubtWrite | null): [label: string, value: string | null | undefined][] {
  return [
    ['In doubt', inDoubt?.kind],
    ['Follow-up id', inDoubt?.followUpId],
    ['Reason', inDoubt?.reason],
    ['Since', inDoubt?.since],
    ['Look after', inDoubt?.lookAfter],
  ];
}

/** Who decided about a write of this job before. */
export function lastDecisionField(decisions: Decision[]): [label: string, value: string | undefined] {
  const last = decisions.at(-1);
  return ['Decided last', last && decisionText(last)];
}

/** A decision in one line. */
export function decisionText({ action, kind, followUpId, by, note, at }: Decision): string {
  const write = kind === 'create' ? 'the create' : `follow-up ${followUpId}`;
  return `${action} for ${write}, ${readableTime(at)}${by ? ` by ${by}` : ''}${note ? `: ${note}` : ''}`;
}

/** The commands that settle a write in doubt, each with the case that it fits. They name the write that was shown. */
export function resolveCommands(
  workflowId: string,
  inDoubt: InDoubtWrite | null,
  globals: GlobalOptions,
): [label: string, command: string][] {
  if (!inDoubt) return [];
  const arrived = inDoubt.kind === 'create' ? ['adopt', '--job-id', 'ID_OF_THE_JOB'] : ['delivered'];
  const command = (...action: string[]) => hint(globals, ['resolve', workflowId, ...action, '--since', inDoubt.since]);
  return [
    ['If it is there', command(...arrived)],
    ['If it is not', command('retry')],
    ['To give it up', command('abandon')],
  ];
}
