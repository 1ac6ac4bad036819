/**
 * `resolve`: settles writes in doubt, one that is named or those of a file. Each line of the file is one of
 * `attention --json` with an action.
 */
import type { Command } from 'commander';
import { parseResolution } from '../agent-job/input.js';
import type { AgentJobStartOptions } from '../agent-job/start-options.js';
import type { AttachJobInput, Attribution, InDoubtWrite, ResolveUnknownInput } from '../contract.js';
import { InvalidInputError } from '../contract/input-checks.js';
import { isObject } from '../contract/shared.js';
import { OPERATIONS } from '../operations.js';
import type { JobHandle } from '../starter.js';
import { EXIT, throwNotRetryable, UsageError } from './exit.js';
import { openSource, readJsonLines } from './input.js';
import { addOperation, readArguments } from './operation.js';
import { print, printAnswer, printToStderr, type Session, withSession } from './session.js';
import { countOf, decisionText, printable, show } from './show.js';
import { type JobNameFlags, readJobName } from './targets.js';
import { addYesOption, canAsk, confirm } from './terminal.js';

interface ResolveFlags extends JobNameFlags {
  from?: string;
  yes?: boolean;
  json?: boolean;
}

/** A job whose write is settled so. */
interface Settlement {
  workflowId: string;
  action: string;
  resolution: ResolveUnknownInput;
}

/** A job of a workflow that Temporal has forgotten: it is watched again under the id that it had. */
interface Attachment {
  workflowId: string;
  action: 'attach';
  options: AgentJobStartOptions;
}

/** A line of `--from`: what to do, or what is wrong with it. */
type Line = { number: number } & (Settlement | Attachment | { problem: string });

/** Adds `resolve`, which settles writes in doubt, one or many. */
export function addResolve(program: Command): void {
  const command = addYesOption(addOperation(program, OPERATIONS.resolve));
  command
    .option('--from <path>', 'settle many: lines of "attention --json" with an "action"; "-" is stdin')
    .action(() => {
      const { from, ...flags } = command.opts<ResolveFlags>();
      return from === undefined ? resolveOne(command, flags) : resolveMany(command, from, flags);
    });
}

async function resolveOne(command: Command, flags: ResolveFlags): Promise<void> {
  const [name, action] = readJobName(command.args, flags, 1);
  if (action === undefined) throw new UsageError('name the workflow and the action, or give --from');
  const resolution = parseResolution(readArguments(flags, OPERATIONS.resolve, { action }));
  await withSession(command, async ({ jobs, signal }) => {
    const job = jobs.handle(name);
    const { workflowId } = job;
    const { unknown, decisions } = await readDoubt(job, resolution, signal);
    if (!flags.json) print(show({ workflowId, unknown, decisions }));
    checkRetryTime(workflowId, resolution, unknown, flags);
    await confirm(() => `Settle it with ${action}, which can not be undone?`, flags, signal);
    await settle(job, resolution, unknown, signal);
    const { by, note } = resolution;
    printAnswer(flags.json, { workflowId, action, by, note, unknown }, () => settledText(action, by));
  });
}

async function resolveMany(command: Command, file: string, flags: ResolveFlags): Promise<void> {
  if (command.args.length > 0) throw new UsageError('give a workflow id or --from, not both');
  const attribution: Attribution = readArguments(flags, OPERATIONS.resolve);
  const lines: Line[] = [];
  for await (const line of readJsonLines(await openSource(file))) {
    lines.push('value' in line ? await readLine(line.number, line.value, attribution) : line);
  }
  let failures = 0;
  await withSession(command, async (session) => {
    await confirm(() => questionOf(lines), flags, session.signal);
    const adopted: Adopted = new Map();
    for (const line of lines) {
      session.signal.throwIfAborted();
      const problem = await settleLine(session, line, flags, adopted);
      if (problem !== null) failures += 1;
      printVerdict(line, problem, flags.json);
    }
    if (!flags.json) print(`${lines.length - failures} settled, ${failures} failed`);
    if (failures > 0) process.exitCode = EXIT.error;
  });
}

/** Which workflow an earlier line has adopt a job, by project and job: Temporal's list tells it a moment late. */
type Adopted = Map<string, string>;

/** Null where the line was settled, else why it was not. */
async function settleLine(
  { jobs, signal }: Session,
  line: Line,
  flags: ResolveFlags,
  adopted: Adopted,
): Promise<string | null> {
  if ('problem' in line) return line.problem;
  try {
    if ('options' in line) {
      const { startJob } = await import('../client/agent-job/start-or-join.js');
      await startJob(jobs.client, line.options, { signal });
      return null;
    }
    const { workflowId, resolution } = line;
    const job = jobs.handle(workflowId);
    const { unknown, projectId } = await readDoubt(job, resolution, signal);
    checkRetryTime(workflowId, resolution, unknown, flags);
    const { jobId } = resolution;
    const adoptee = JSON.stringify([projectId, jobId]);
    const isForced = 'force' in resolution && resolution.force === true;
    const other = resolution.action === 'adopt' && !isForced ? adopted.get(adoptee) : undefined;
    if (other !== undefined) throw new Error(`the workflow ${other} of an earlier line has the job ${jobId}`);
    await settle(job, resolution, unknown, signal);
    if (resolution.action === 'adopt') adopted.set(adoptee, workflowId);
    return null;
  } catch (error) {
    signal.throwIfAborted();
    return (error as Error).message;
  }
}

function printVerdict(line: Line, problem: string | null, isJson: boolean | undefined): void {
  const { number } = line;
  const { workflowId = null, action = null } = 'problem' in line ? {} : line;
  const { by = null } = 'resolution' in line ? line.resolution : {};
  const answer = { line: number, workflowId, action, by, isSettled: problem === null, problem };
  printAnswer(isJson, answer, () =>
    printable(`line ${number}  ${workflowId ?? '-'}  ${problem ?? settledText(action, by)}`),
  );
}

function settledText(action: string | null, by: string | null | undefined): string {
  return `settled with ${action}${by ? ` by ${by}` : ''}`;
}

/** The present write in doubt, which must be the one that was named. The workflow checks whether the action fits. */
async function readDoubt(job: JobHandle, { since, followUpId }: ResolveUnknownInput, signal: AbortSignal) {
  const { unknown, decisions, projectId } = await job.state({ signal });
  if (unknown === null) {
    const last = decisions.at(-1);
    const decided = last === undefined ? '' : ` (decided last: ${printable(decisionText(last))})`;
    throw new Error(`no write is in doubt any more: it was settled, or the job has ended${decided}`);
  }
  if ((since != null && since !== unknown.since) || (followUpId != null && followUpId !== unknown.followUpId)) {
    throw new Error(`names another write; in doubt is the ${unknown.kind} since ${unknown.since}`);
  }
  return { unknown, decisions, projectId };
}

/**
 * A `retry` while the first write may still arrive would make it twice. A person at a terminal is warned; a script,
 * which would not read that, is refused.
 */
function checkRetryTime(
  workflowId: string,
  { action }: ResolveUnknownInput,
  { lookAfter }: InDoubtWrite,
  flags: ResolveFlags,
): void {
  if (action !== 'retry' || Date.now() >= Date.parse(lookAfter)) return;
  const advice = 'look upstream after that time first, or retry may double it';
  const warning = `${workflowId}: until ${lookAfter} the write may still be on its way; ${advice}`;
  if (!flags.yes && !canAsk(flags)) throw new UsageError(`${warning}. Nothing is sent before, but with --yes`);
  printToStderr(printable(`agent-jobs: warning: ${warning}`));
}

/** Names the write that was read: another one that came in between is not settled by mistake. */
async function settle(
  job: JobHandle,
  resolution: ResolveUnknownInput,
  { since, followUpId }: InDoubtWrite,
  signal: AbortSignal,
): Promise<void> {
  const settled = job.resolve({ ...resolution, since, followUpId: followUpId ?? null }, { signal });
  // Again, the command would settle what is in doubt by then.
  await (resolution.since == null ? settled.catch(throwNotRetryable) : settled);
}

/** What a line says, which may name its own author and note; a wrong line has a problem and harms no other. */
async function readLine(number: number, fields: Record<string, unknown>, { by, note }: Attribution): Promise<Line> {
  try {
    const { action, workflowId } = fields;
    if (action == null) throw new Error('has no action');
    if (typeof workflowId !== 'string' || workflowId === '') throw new InvalidInputError('workflowId', 'is missing');
    if (action === 'attach') return { number, workflowId, action, options: await attachOptions(workflowId, fields) };
    // A line of `attention` holds the write as the job's state has it.
    const unknown = isObject(fields['unknown']) ? fields['unknown'] : {};
    const since = fields['since'] ?? unknown['since'];
    const followUpId = fields['followUpId'] ?? unknown['followUpId'];
    if (typeof since !== 'string') throw new Error('has no since, which names the write that is meant');
    const attributed = { ...fields, since, followUpId, by: fields['by'] ?? by, note: fields['note'] ?? note };
    const resolution = parseResolution(attributed);
    return { number, workflowId, action: resolution.action, resolution };
  } catch (error) {
    return { number, problem: (error as Error).message };
  }
}

/** A job of the logs. Under the old id its key is taken again, and none of its follow-ups is sent a second time. */
async function attachOptions(workflowId: string, fields: Record<string, unknown>): Promise<AgentJobStartOptions> {
  const { agentJobStartOptions } = await import('../agent-job/start-options.js');
  const { projectId, jobId, usedFollowUpIds, taskQueue } = fields as unknown as AttachJobInput & { taskQueue?: string };
  return agentJobStartOptions({ projectId, jobId, usedFollowUpIds }, { workflowId, taskQueue });
}

/** What the lines would do, as a question to a person; null where all of them are wrong. */
function questionOf(lines: readonly Line[]): string | null {
  const actions = lines.flatMap((line) => ('problem' in line ? [] : [line.action]));
  if (actions.length === 0) return null;
  const wrong = lines.length - actions.length;
  const counts = [...new Set(actions)].map((action) => `${actions.filter((one) => one === action).length} ${action}`);
  const left = wrong === 0 ? '' : ` ${countOf(wrong, 'wrong line')} will be left out.`;
  const decisions = countOf(actions.length, 'decision');
  return `Carry out ${decisions} (${counts.join(', ')}), which can not be undone?${left}`;
}
