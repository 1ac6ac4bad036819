import { createReadStream } from 'node:fs';
import type { Command } from 'commander';
import type { Attribution } from '../contract.js';
import { addYesOption, confirm } from './ask.js';
import { addAttributionOptions, readAttribution, type AttributionFlags } from './attribution.js';
import { CONCURRENT_JOBS } from './batch.js';
import { EXIT, UsageError } from './exit.js';
import { toTime } from './list-filter.js';
import { readLines } from './read-lines.js';
import { readTraces, type JobTrace } from './reconcile-log.js';
import { isProven, lookAt, settle, type Finding } from './reconcile-look.js';
import { print, printJson, printToStderr, withSession, type Session } from './session.js';
import { countOf, printable } from './text.js';

interface ReconcileFlags extends AttributionFlags {
  since?: string;
  dryRun?: boolean;
  yes?: boolean;
  json?: boolean;
}

/** A worker's line holds ids, a reason and metadata. */
const MAX_LINE_BYTES = 1024 * 1024;
const WANTED = 'give what its workers wrote with LOG_FORMAT=json';
const NOTE = "a worker's log shows that the upstream took it";

const EXITS = `
Findings: adopt, delivered, attach (the log proves it: they are settled); waits (repeat the command);
forgotten (a follow-up that Temporal does not know: a repetition asks); inDoubt, twoJobs (look upstream).
Exit code: 0 nothing is left, 13 something is left, 1 no line of the log is a worker's`;

/** Adds `reconcile`, which brings back what a restored Temporal has forgotten and the workers' logs still tell. */
export function addReconcile(program: Command): void {
  const command = program
    .command('reconcile')
    .description('after Temporal was restored: compare it with the workers’ logs, and settle what they prove')
    .argument('<logs...>', 'what the workers wrote, as lines of JSON; "-" is stdin')
    .option('--since <time>', 'leave out lines from before it, the time of the backup; or "2 hours" ago')
    .option('--dry-run', 'show what would be settled, and settle nothing')
    .option('--json', 'print one line of JSON for each finding')
    .addHelpText('after', EXITS)
    .action((files: string[], flags: ReconcileFlags) => reconcile(command, files, flags));
  addAttributionOptions(addYesOption(command));
}

async function reconcile(command: Command, files: string[], flags: ReconcileFlags): Promise<void> {
  const attribution = { note: NOTE, ...(await readAttribution(flags)) };
  const since = await toTime('--since', flags.since);
  await withSession(command, async (session) => {
    const { namespace } = session.jobs.client.options;
    const { jobs: traces, lines } = await readTraces(linesOf(files), { namespace, since });
    if (lines === 0) throw new Error(`no line tells of a write in the namespace ${namespace}: ${WANTED}`);
    const found = await lookAtAll(session, traces);
    const open = found.filter(({ findings }) => findings.some(({ finding }) => finding !== 'known'));
    const told = open.flatMap(({ findings }) => findings);
    if (flags.dryRun !== true) await confirm(() => questionOf(told), flags, session.signal);
    const left = flags.dryRun === true ? tellAll(told, flags) : await settleAll(session, open, { attribution, flags });
    const verb = flags.dryRun === true ? 'would be settled' : 'settled';
    const known = traces.length - open.length;
    const summary = `${countOf(traces.length, 'job')} in the log: ${known} known`;
    const settled = told.length === 0 ? '' : `, ${countOf(left.settled, 'finding')} ${verb}, ${left.open} left`;
    if (flags.json) printToStderr(`agent-jobs: ${summary}${settled}`);
    else print(`${summary}${settled}`);
    if (left.open > 0) process.exitCode = EXIT.notAll;
  });
}

async function* linesOf(files: readonly string[]) {
  for (const file of files) {
    const stream = file === '-' ? process.stdin : createReadStream(file);
    try {
      yield* readLines(stream as AsyncIterable<Uint8Array>, MAX_LINE_BYTES);
    } catch (error) {
      throw new UsageError(`${file} can not be read: ${(error as Error).message}`);
    }
  }
}

interface Looked {
  trace: JobTrace;
  findings: Finding[];
}

async function lookAtAll(session: Session, traces: readonly JobTrace[]): Promise<Looked[]> {
  const { concurrently } = await import('../client/concurrently.js');
  const looked: Looked[] = [];
  const look = async (trace: JobTrace) => ({ trace, findings: await lookAt(session, trace) });
  const limits = { limit: CONCURRENT_JOBS, signal: session.signal };
  for await (const each of concurrently(traces, limits, look)) looked.push(each);
  return looked;
}

function questionOf(findings: readonly Finding[]): string | null {
  const count = (kind: Finding['finding']) => findings.filter(({ finding }) => finding === kind).length;
  if (!findings.some(isProven)) return null;
  const resolved = countOf(count('adopt') + count('delivered'), 'write');
  return `Settle ${resolved} in doubt and attach to ${countOf(count('attach'), 'job')}, which can not be undone?`;
}

interface Tally {
  settled: number;
  open: number;
}

function tellAll(findings: readonly Finding[], flags: ReconcileFlags): Tally {
  for (const finding of findings) tell(finding, { isSettled: false, ...flags });
  const settled = findings.filter(isProven).length;
  return { settled, open: findings.length - settled };
}

async function settleAll(
  session: Session,
  open: readonly Looked[],
  { attribution, flags }: { attribution: Attribution; flags: ReconcileFlags },
): Promise<Tally> {
  const { concurrently } = await import('../client/concurrently.js');
  const tally: Tally = { settled: 0, open: 0 };
  const limits = { limit: CONCURRENT_JOBS, signal: session.signal };
  const work = ({ trace }: Looked) => settle(session, trace, attribution);
  for await (const { done, left } of concurrently(open, limits, work)) {
    for (const finding of done) tell(finding, { isSettled: true, ...flags });
    for (const finding of left) tell(finding, { isSettled: false, ...flags });
    tally.settled += done.length;
    tally.open += left.length;
  }
  return tally;
}

function tell(
  { since: _, text, ...finding }: Finding,
  { isSettled, json }: ReconcileFlags & { isSettled: boolean },
): void {
  if (json) return printJson({ ...finding, text, isSettled });
  const { workflowId, jobId, followUpId } = finding;
  const verb = isSettled ? `settled with ${finding.finding}` : finding.finding;
  const ids = [jobId && `job ${jobId}`, followUpId && `follow-up ${followUpId}`].filter(Boolean).join(', ');
  print(printable(`${workflowId}  ${verb}  ${ids === '' ? '' : `${ids}: `}${text}`));
}
