/** `resolve`: resolves writes in doubt, by name or by a file: lines of `attention --json` with an action each. */
import type { Command } from 'commander';
import { parseResolution } from '../agent-job/input.js';
import type { AttachJobInput, Attribution, InDoubtWrite, ResolveUnknownInput } from '../contract.js';
import { asNotRetryable, InvalidInputError } from '../contract/errors.js';
import { isObject } from '../contract/shared.js';
import { OPERATIONS } from '../operations.js';
import type { JobHandle } from '../starter.js';
import { CommandError, UsageError } from './exit.js';
import { addYesOption, canAsk, confirm, type JsonLine, openSource, readJsonLines } from './input.js';
import { addOperation, callOf, type JobNameFlags, readArguments, readJobName } from './operation.js';
import { print, printAnswer, printToStderr, type Session, withSession } from './session.js';
import { countOf, decisionText, printable, show } from './show.js';

interface ResolveFlags extends JobNameFlags {
  from?: string;
  yes?: boolean;
  json?: boolean;
}

/** A line of `--from`; one that says nothing to carry out has no action. */
interface DecisionLine {
  number: number;
  workflowId: string | null;
  action: string | null;
  by: string | null;
  /** Throws what is wrong. */
  carryOut: (session: Session) => Promise<unknown>;
}

interface Shared {
  flags: ResolveFlags;
  /** Who decides, and why, if a line does not say. */
  attribution: Attribution;
  /** Which workflow an earlier line has adopt a job, by project and job: Temporal lists it a moment late. */
  adopted: Map<string, string>;
}

/** Adds `resolve`, which resolves writes in doubt, one or many. */
export function addResolve(program: Command): void {
  const command = addYesOption(addOperation(program, OPERATIONS.resolve));
  command
    .option('--from <path>', 'resolve many: lines of "attention --json" with an "action"; "-" is stdin')
    .addHelpText('after', "\nExample: agent-jobs resolve 'agent-job/acme/ticket-4711' adopt --job-id job_1")
    .action(() => {
      const { from, ...flags } = command.opts<ResolveFlags>();
      return from === undefined ? resolveOne(command, flags) : resolveMany(command, from, flags);
    });
}

async function resolveOne(command: Command, flags: ResolveFlags): Promise<void> {
  const [name, action] = readJobName(command.args, flags, 1);
  if (action === undefined) throw new UsageError('name the workflow and the action, or give --from');
  const resolution = parseResolution(readArguments(flags, OPERATIONS.resolve, { action }));
  await withSession(command, async (session) => {
    const job = session.jobs.handle(name);
    const { workflowId } = job;
    const { unknown, decisions } = await readDoubt(job, resolution, session.signal);
    if (!flags.json) print(show({ workflowId, unknown, decisions }));
    const question = `Resolve it with ${action}, which can not be undone?`;
    await resolveWrite(job, resolution, unknown, { flags, session, question });
    const { by = null, note } = resolution;
    printAnswer(flags.json, { workflowId, action, by, note, unknown }, () => resolvedText(action, by));
  });
}

async function resolveMany(command: Command, file: string, flags: ResolveFlags): Promise<void> {
  if (command.args.length > 0) throw new UsageError('give a workflow id or --from, not both');
  const shared = { flags, attribution: readArguments(flags, OPERATIONS.resolve), adopted: new Map() };
  const lines: DecisionLine[] = [];
  for await (const line of readJsonLines(await openSource(file))) lines.push(await readLine(line, shared));
  await withSession(command, async (session) => {
    const { signal } = session;
    const actions = lines.flatMap(({ action }) => action ?? []);
    const wrong = lines.length - actions.length;
    const what = `${countOf(actions.length, 'decision')} (${[...new Set(actions)].join(', ')})`;
    const left = wrong === 0 ? '' : ` ${countOf(wrong, 'wrong line')} will be left out.`;
    if (actions.length > 0) await confirm(`Carry out ${what}, which can not be undone?${left}`, flags, signal);
    let failures = 0;
    for (const { number, carryOut, ...line } of lines) {
      signal.throwIfAborted();
      const problem = await carryOut(session).then(
        () => null,
        (error: Error) => error.message,
      );
      signal.throwIfAborted();
      if (problem !== null) failures += 1;
      const { workflowId, action, by } = line;
      printAnswer(flags.json, { line: number, ...line, isResolved: problem === null, problem }, () =>
        printable(`line ${number}  ${workflowId ?? '-'}  ${problem ?? resolvedText(action, by)}`),
      );
    }
    if (!flags.json) print(`${lines.length - failures} resolved, ${failures} failed`);
    if (failures > 0) throw new CommandError('error', `${countOf(failures, 'line')} resolved nothing`);
  });
}

/** A wrong line harms no other. */
async function readLine(line: JsonLine, shared: Shared): Promise<DecisionLine> {
  const { number } = line;
  try {
    if ('problem' in line) throw new Error(line.problem);
    const { action, workflowId } = line.value;
    if (action == null) throw new Error('has no action');
    if (typeof workflowId !== 'string' || workflowId === '') throw new InvalidInputError('workflowId', 'is missing');
    if (action === 'attach') return { number, ...(await attachment(workflowId, line.value)) };
    return { number, ...resolutionOfLine(workflowId, line.value, shared) };
  } catch (error) {
    const given = 'value' in line ? line.value['workflowId'] : null;
    const workflowId = typeof given === 'string' ? given : null;
    return { number, workflowId, action: null, by: null, carryOut: () => Promise.reject(error as Error) };
  }
}

/** A job of a workflow that Temporal has forgotten: under its old id, no follow-up is sent a second time. */
async function attachment(workflowId: string, fields: Record<string, unknown>): Promise<Omit<DecisionLine, 'number'>> {
  const { agentJobStartOptions } = await import('../agent-job/start-options.js');
  const { startJob } = await import('../client/agent-job/start-or-join.js');
  const { projectId, jobId, usedFollowUpIds, taskQueue } = fields as unknown as AttachJobInput & { taskQueue?: string };
  const options = agentJobStartOptions({ projectId, jobId, usedFollowUpIds }, { workflowId, taskQueue });
  const carryOut = ({ jobs, signal }: Session) => startJob(jobs.client, options, { signal });
  return { workflowId, action: 'attach', by: null, carryOut };
}

function resolutionOfLine(
  workflowId: string,
  fields: Record<string, unknown>,
  shared: Shared,
): Omit<DecisionLine, 'number'> {
  const { attribution, adopted, flags } = shared;
  // A line of `attention` holds the write as the job's state has it.
  const shown = isObject(fields['unknown']) ? fields['unknown'] : {};
  const since = fields['since'] ?? shown['since'];
  const followUpId = fields['followUpId'] ?? shown['followUpId'];
  if (typeof since !== 'string') throw new Error('has no since, which names the write that is meant');
  const by = fields['by'] ?? attribution.by;
  const note = fields['note'] ?? attribution.note;
  const resolution = parseResolution({ ...fields, since, followUpId, by, note });
  const carryOut = async (session: Session) => {
    const job = session.jobs.handle(workflowId);
    const { unknown, projectId } = await readDoubt(job, resolution, session.signal);
    if (resolution.action !== 'adopt') return resolveWrite(job, resolution, unknown, { flags, session });
    const adoptee = JSON.stringify([projectId, resolution.jobId]);
    const other = resolution.force ? undefined : adopted.get(adoptee);
    if (other !== undefined)
      throw new Error(`the workflow ${other} of an earlier line has the job ${resolution.jobId}`);
    await resolveWrite(job, resolution, unknown, { flags, session });
    adopted.set(adoptee, workflowId);
  };
  return { workflowId, action: resolution.action, by: resolution.by ?? null, carryOut };
}

function resolvedText(action: string | null, by: string | null): string {
  return `resolved with ${action}${by ? ` by ${by}` : ''}`;
}

/** The present write in doubt, which must be the one that was named. The workflow checks whether the action fits. */
async function readDoubt(job: JobHandle, { since, followUpId }: ResolveUnknownInput, signal: AbortSignal) {
  const { unknown, decisions, projectId } = await job.state({ signal });
  if (unknown === null) {
    const last = decisions.at(-1);
    const decided = last === undefined ? '' : ` (decided last: ${printable(decisionText(last))})`;
    throw new Error(`no write is in doubt any more: it was resolved, or the job has ended${decided}`);
  }
  if ((since != null && since !== unknown.since) || (followUpId != null && followUpId !== unknown.followUpId)) {
    throw new Error(`the decision names another write; in doubt is the ${unknown.kind} since ${unknown.since}`);
  }
  return { unknown, decisions, projectId };
}

/**
 * Resolves the write that was read: the workflow resolves no other one that came in between. A `retry` while the first
 * write may still arrive would make it twice: a person at a terminal is asked. A script would not read a warning: the
 * command ends with an error.
 */
async function resolveWrite(
  job: JobHandle,
  resolution: ResolveUnknownInput,
  { since, followUpId, lookAfter }: InDoubtWrite,
  { flags, session, question }: { flags: ResolveFlags; session: Session; question?: string },
): Promise<void> {
  const { workflowId } = job;
  if (resolution.action === 'retry' && Date.now() < Date.parse(lookAfter)) {
    const advice = 'check upstream after that time first, or retry may double it';
    const warning = `${workflowId}: until ${lookAfter} the write may still be on its way; ${advice}`;
    if (!flags.yes && !canAsk(flags)) throw new UsageError(`${warning}. Nothing is sent before, but with --yes`);
    printToStderr(printable(`agent-jobs: warning: ${warning}`));
  }
  if (question) await confirm(question, flags, session.signal);
  const args = { ...resolution, since, followUpId: followUpId ?? null };
  const resolved = OPERATIONS.resolve.run({ ...callOf(session), args, job });
  // Again, the command would resolve what is in doubt by then.
  await resolved.catch((error: unknown) => {
    throw resolution.since == null ? asNotRetryable(error) : error;
  });
}
