import type { Command } from 'commander';
import type { AgentJobStartOptions } from '../agent-job/start-options.js';
import { isObject } from '../contract/shared.js';
import type { AttachJobInput, Attribution, InDoubtWrite, ResolveUnknownInput } from '../contract.js';
import { OPERATIONS } from '../operations.js';
import type { AgentJobs } from '../starter.js';
import { EXIT, throwNotRetryable, UsageError } from './exit.js';
import { readText } from './input.js';
import { addOperation, readArguments } from './operation.js';
import { findJob, type JobNameFlags, readJobName } from './targets.js';
import { print, printAnswer, printJson, printToStderr, type Session, withSession } from './session.js';
import { countOf, decisionText, printable, show } from './show.js';
import { addYesOption, canAsk, confirm } from './terminal.js';

interface ResolveFlags extends JobNameFlags {
  force?: boolean;
  since?: string;
  followUpId?: string;
  from?: string;
  dryRun?: boolean;
  yes?: boolean;
  json?: boolean;
}

/** Adds `resolve`, which settles writes in doubt, one or many. */
export function addResolve(program: Command): void {
  const command = addYesOption(addOperation(program, OPERATIONS.resolve));
  const jobId = command.options.find(({ long }) => long === '--job-id')!;
  jobId.description += '; with another action: the job whose workflow is meant';
  command
    .option('--from <path>', 'settle many: lines of "attention --json" with an "action"; "-" is stdin')
    .option('--dry-run', 'show what would be settled, and settle nothing; the upstream is not asked for --job-id')
    .action((workflowId: string | undefined, action: string | undefined, flags: ResolveFlags) =>
      flags.from === undefined
        ? resolveOne(command, workflowId, action, flags)
        : resolveMany(command, workflowId, flags.from, flags),
    );
}

async function resolveOne(
  command: Command,
  first: string | undefined,
  second: string | undefined,
  flags: ResolveFlags,
): Promise<void> {
  const isAdoption = (second ?? first) === 'adopt';
  const { force, since, followUpId } = flags;
  const [adopted, named] = isAdoption ? [flags.jobId] : [undefined, flags.jobId];
  // With --key, or --job-id where it names the workflow, no job precedes the action.
  const hasJob = (flags.key ?? named) === undefined || second !== undefined;
  const action = hasJob ? second : first;
  const given = hasJob ? first : undefined;
  if ((given ?? flags.key ?? named) === undefined || action === undefined) {
    throw new UsageError('name the workflow and the action, or give --from');
  }
  const name = readJobName({ given, project: flags.project, key: flags.key, jobId: named });
  const { by, note } = readArguments(flags, OPERATIONS.resolve) as Attribution;
  if (isAdoption && adopted === undefined) throw new UsageError('adopt needs --job-id, the job that the create made');
  const decision = { action, jobId: adopted, force, since, followUpId, by, note };
  await readResolution({ workflowId: 'any', ...decision }); // Wrong values are told before anything is connected.
  await withSession(command, async (session) => {
    const { jobs, signal } = session;
    const { workflowId } = await findJob(session, name);
    const resolution = await readResolution({ workflowId, ...decision });
    const { inDoubt, decisions, projectId } = await readQuestion(jobs, resolution, signal);
    if (!flags.json) print(show({ workflowId, unknown: inDoubt, decisions }));
    checkRetryTime(resolution, inDoubt, flags);
    await checkHolder(session, resolution, projectId);
    if (!flags.dryRun) {
      await confirm(() => `Settle it with ${action}, which can not be undone?`, flags, signal);
      await settle(jobs, resolution, inDoubt, signal);
    }
    const told = { workflowId, action, by, note, unknown: inDoubt, isSettled: !flags.dryRun };
    printAnswer(flags.json, told, () => verdictText(resolution, flags.dryRun ?? false));
  });
}

async function resolveMany(
  command: Command,
  workflowId: string | undefined,
  file: string,
  { dryRun = false, json = false, ...flags }: ResolveFlags,
): Promise<void> {
  if (workflowId !== undefined) throw new UsageError('give a workflow id or --from, not both');
  const { by, note } = readArguments(flags, OPERATIONS.resolve) as Attribution;
  const texts = (await readText(file, '--from')).split('\n').map((text, index) => ({ text, number: index + 1 }));
  const filled = texts.filter(({ text }) => text.trim() !== '');
  const lines = await Promise.all(filled.map(({ text, number }) => readLine(text, number, { by, note })));
  let failures = 0;
  await withSession(command, async (session) => {
    const { signal } = session;
    if (!dryRun) await confirm(() => questionOf(lines), { ...flags, json }, signal);
    const adopted: Adopted = new Map();
    for (const line of lines) {
      signal.throwIfAborted();
      const problem = await settleLine(session, line, { dryRun, adopted, flags: { ...flags, json } });
      if (problem !== null) failures += 1;
      printVerdict(line, problem, { dryRun, json });
    }
    if (!json) print(`${lines.length - failures} ${dryRun ? 'would be settled' : 'settled'}, ${failures} failed`);
    if (failures > 0) process.exitCode = EXIT.error;
  });
}

/** Null where the line was settled, or would be. */
async function settleLine(
  session: Session,
  { resolution, problem }: ResolutionLine,
  { dryRun, adopted, flags }: { dryRun: boolean; adopted: Adopted; flags: Pick<ResolveFlags, 'yes' | 'json'> },
): Promise<string | null> {
  if (resolution === null) return problem;
  const { jobs, signal } = session;
  try {
    if (resolution.action === 'attach') {
      const { startJob } = await import('../client/agent-job/start-or-join.js');
      if (!dryRun) await startJob(jobs.client, resolution.options, { signal });
      return null;
    }
    const { inDoubt, projectId } = await readQuestion(jobs, resolution, signal);
    checkRetryTime(resolution, inDoubt, flags);
    await checkHolder(session, resolution, projectId, adopted);
    if (!dryRun) await settle(jobs, resolution, inDoubt, signal);
    if (resolution.action === 'adopt') adopted.set(nameOf(projectId, resolution.jobId), resolution.workflowId);
    return null;
  } catch (error) {
    signal.throwIfAborted();
    return (error as Error).message;
  }
}

function printVerdict(
  line: ResolutionLine,
  problem: string | null,
  { dryRun, json }: { dryRun: boolean; json: boolean },
): void {
  const { number, resolution } = line;
  const { workflowId = null, action = null, by = null } = resolution ?? {};
  if (json) return printJson({ line: number, workflowId, action, by, isSettled: problem === null && !dryRun, problem });
  const verdict = problem ?? verdictText({ action, by }, dryRun);
  print(printable(`line ${number}  ${workflowId ?? '-'}  ${verdict}`));
}

function verdictText(
  { action, by }: { action: string | null; by?: string | null | undefined },
  dryRun: boolean,
): string {
  if (!dryRun) return `settled with ${action}${by ? ` by ${by}` : ''}`;
  // Only a worker can ask the upstream, and it does so with the decision.
  const unasked = action === 'adopt' ? ', if the upstream knows its job: that was not asked' : '';
  return `would be settled with ${action}${unasked}`;
}

/** The present write in doubt, which must be the one that was named and one that the action fits. */
async function readQuestion(jobs: AgentJobs, resolution: Resolution, signal: AbortSignal) {
  const { unknown: inDoubt, decisions, projectId } = await jobs.handle(resolution.workflowId).state({ signal });
  if (inDoubt === null) {
    const last = decisions.at(-1);
    const decided = last === undefined ? '' : ` (decided last: ${printable(decisionText(last))})`;
    throw new Error(`no write is in doubt any more: it was settled, or the job has ended${decided}`);
  }
  const { since, followUpId, action } = resolution;
  if ((since != null && since !== inDoubt.since) || (followUpId != null && followUpId !== inDoubt.followUpId)) {
    throw new Error(`names another write; in doubt is the ${inDoubt.kind} since ${inDoubt.since}`);
  }
  const fits = { adopt: inDoubt.kind === 'create', delivered: inDoubt.kind === 'followUp', retry: true, abandon: true };
  if (!fits[action]) throw new Error(`${action} does not fit: a ${inDoubt.kind} is in doubt`);
  return { inDoubt, decisions, projectId };
}

/** A person at a terminal is warned; a script, which would not read that, is refused. */
function checkRetryTime(
  resolution: Resolution,
  inDoubt: InDoubtWrite,
  flags: Pick<ResolveFlags, 'yes' | 'json'>,
): void {
  const warning = earlyRetryWarning(resolution, inDoubt, Date.now());
  if (warning === null) return;
  if (!flags.yes && !canAsk(flags)) throw new UsageError(`${warning}. Nothing is sent before, but with --yes`);
  printToStderr(printable(`agent-jobs: warning: ${warning}`));
}

/** Names the write that was read: another one that came in between is not settled by mistake. */
async function settle(
  jobs: AgentJobs,
  resolution: Resolution,
  inDoubt: InDoubtWrite,
  signal: AbortSignal,
): Promise<void> {
  const { workflowId, ...decision } = resolution;
  const named = { ...decision, since: inDoubt.since, followUpId: inDoubt.followUpId ?? null };
  const settled = jobs.handle(workflowId).resolve(named, { signal });
  // Again, the command would settle what is in doubt by then.
  await (resolution.since === undefined ? settled.catch(throwNotRetryable) : settled);
}

/** Which workflow this command has had adopt a job, by project and job. */
type Adopted = Map<string, string>;

/** Throws where another workflow has the job that is to be adopted, or had it. The list may lag behind `adopted`. */
async function checkHolder(
  { jobs, signal }: Session,
  resolution: Resolution,
  projectId: string,
  adopted: Adopted = new Map(),
): Promise<void> {
  if (resolution.action !== 'adopt' || resolution.force === true) return;
  const { workflowId, jobId } = resolution;
  const holders = new Set([adopted.get(nameOf(projectId, jobId)) ?? workflowId]);
  for await (const job of jobs.list({ projectId, jobId }, { signal })) holders.add(job.workflowId);
  const other = [...holders].find((holder) => holder !== workflowId);
  if (other !== undefined) {
    throw new Error(`the workflow ${other} has the job ${jobId} already: look again, or adopt it with --force`);
  }
}

function nameOf(projectId: string, jobId: string): string {
  return JSON.stringify([projectId, jobId]);
}

// Decisions about writes in doubt on the command line: how they are checked, and read from `--from`.

/** A decision about one job's write in doubt. */
type Resolution = ResolveUnknownInput & { workflowId: string };

/** A job of a workflow that Temporal has forgotten is watched again under the id that it had. */
interface Attachment extends Attribution {
  workflowId: string;
  action: 'attach';
  options: AgentJobStartOptions;
}

/** A line of `--from`: a decision, or what is wrong with it. */
interface ResolutionLine {
  number: number;
  resolution: Resolution | Attachment | null;
  problem: string | null;
}

/** Checks a decision; throws InvalidInputError. */
async function readResolution({ workflowId, ...decision }: Record<string, unknown>): Promise<Resolution> {
  const { parseResolution } = await import('../agent-job/input.js');
  return { ...parseResolution(decision), workflowId: await checkWorkflowId(workflowId) };
}

async function checkWorkflowId(workflowId: unknown): Promise<string> {
  const { InvalidInputError } = await import('../contract/input-checks.js');
  if (typeof workflowId !== 'string' || workflowId === '') throw new InvalidInputError('workflowId', 'is missing');
  return workflowId;
}

/** Reads a line of JSON, which may name its own author and note; a wrong line has a problem and harms no other. */
async function readLine(line: string, number: number, { by, note }: Attribution): Promise<ResolutionLine> {
  try {
    const fields: unknown = JSON.parse(line);
    if (!isObject(fields)) throw new Error('is no JSON object');
    if (fields['action'] == null) throw new Error('has no action');
    if (fields['action'] === 'attach') return { number, resolution: await readAttachment(fields), problem: null };
    const { since, followUpId } = namedWrite(fields);
    if (typeof since !== 'string') throw new Error('has no since, which names the write that is meant');
    const attributed = { ...fields, since, followUpId, by: fields['by'] ?? by, note: fields['note'] ?? note };
    return { number, resolution: await readResolution(attributed), problem: null };
  } catch (error) {
    return {
      number,
      resolution: null,
      problem: error instanceof SyntaxError ? 'is no JSON' : (error as Error).message,
    };
  }
}

/** A line of `attention` holds the write as the job's state has it; another line holds its names. */
function namedWrite(fields: Record<string, unknown>): { since: unknown; followUpId: unknown } {
  const unknown = isObject(fields['unknown']) ? fields['unknown'] : {};
  return { since: fields['since'] ?? unknown['since'], followUpId: fields['followUpId'] ?? unknown['followUpId'] };
}

/** A job of the logs. Under the old id its key is taken again, and none of its follow-ups is sent a second time. */
async function readAttachment(fields: Record<string, unknown>): Promise<Attachment> {
  const { agentJobStartOptions } = await import('../agent-job/start-options.js');
  const workflowId = await checkWorkflowId(fields['workflowId']);
  const { projectId, jobId, usedFollowUpIds, taskQueue } = fields as unknown as AttachJobInput & { taskQueue?: string };
  const options = agentJobStartOptions({ projectId, jobId, usedFollowUpIds }, { workflowId, taskQueue });
  return { workflowId, action: 'attach', options };
}

/** What the lines would do, as a question to a person; null where all of them are wrong. */
function questionOf(lines: readonly ResolutionLine[]): string | null {
  const actions = lines.flatMap(({ resolution }) => (resolution === null ? [] : [resolution.action]));
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
function earlyRetryWarning({ workflowId, action }: Resolution, inDoubt: InDoubtWrite, now: number): string | null {
  const { lookAfter } = inDoubt;
  if (action !== 'retry' || now >= Date.parse(lookAfter)) return null;
  const advice = 'unless somebody looks again after that time, retry may double it';
  return `${workflowId}: until ${lookAfter} the write may still be on its way; ${advice}`;
}
