import { createReadStream } from 'node:fs';
import type { Command } from 'commander';
import { CONCURRENT_JOBS } from './batch.js';
import { EXIT, UsageError } from './exit.js';
import { toTime } from './list-filter.js';
import { readLines } from './read-lines.js';
import { readTraces, type JobTrace } from './reconcile-log.js';
import { isProven, lookAt, type Finding } from './reconcile-look.js';
import { printJson, printToStderr, withSession, type Session } from './session.js';
import { countOf, printable } from './text.js';

interface ReconcileFlags {
  since?: string;
  json?: boolean;
}

/** A worker's line holds ids, a reason and metadata. */
const MAX_LINE_BYTES = 1024 * 1024;
const WANTED = 'give what its workers wrote with LOG_FORMAT=json';
const NOTE = "a worker's log shows that the upstream took it";

const EXITS = `
Findings: adopt, delivered, attach (the log proves it: a line for "resolve --from"); waits (repeat the command);
forgotten (a follow-up that Temporal does not know: a repetition asks); inDoubt, twoJobs (look upstream).
Exit code: 0 nothing is left, 13 something is left, 1 no line of the log is a worker's`;

/** Adds `reconcile`, which tells what a restored Temporal has forgotten and the workers' logs still tell. */
export function addReconcile(program: Command): void {
  const command = program
    .command('reconcile')
    .description('after Temporal was restored: compare it with the workers’ logs, and print lines for "resolve --from"')
    .argument('<logs...>', 'what the workers wrote, as lines of JSON; "-" is stdin')
    .option('--since <time>', 'leave out lines from before it, the time of the backup; or "2 hours" ago')
    .option('--json', 'print a line of JSON for what is left to a person, too')
    .addHelpText('after', EXITS)
    .action((files: string[], flags: ReconcileFlags) => reconcile(command, files, flags));
}

async function reconcile(command: Command, files: string[], flags: ReconcileFlags): Promise<void> {
  const since = await toTime('--since', flags.since);
  await withSession(command, async (session) => {
    const { namespace } = session.jobs.client.options;
    const { jobs: traces, lines } = await readTraces(linesOf(files), { namespace, since });
    if (lines === 0) throw new Error(`no line tells of a write in the namespace ${namespace}: ${WANTED}`);
    const count = { known: 0, proven: 0, left: 0 };
    for await (const finding of lookAtAll(session, traces)) {
      if (finding.finding === 'known') count.known += 1;
      else {
        count[isProven(finding) ? 'proven' : 'left'] += 1;
        tell(finding, flags);
      }
    }
    const { known, proven, left } = count;
    const found = proven + left === 0 ? '' : `, ${countOf(proven, 'finding')} for resolve --from, ${left} for a person`;
    printToStderr(`agent-jobs: ${countOf(traces.length, 'job')} in the log: ${known} known${found}`);
    if (proven + left > 0) process.exitCode = EXIT.notAll;
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

async function* lookAtAll(session: Session, traces: readonly JobTrace[]): AsyncGenerator<Finding> {
  const { concurrently } = await import('../client/concurrently.js');
  const limits = { limit: CONCURRENT_JOBS, signal: session.signal };
  const look = (trace: JobTrace) => lookAt(session, trace);
  for await (const findings of concurrently(traces, limits, look)) yield* findings;
}

/** What the log proves is a line that `resolve --from` takes. */
function tell(finding: Finding, { json = false }: ReconcileFlags): void {
  if (isProven(finding)) return printJson({ ...finding, action: finding.finding, note: NOTE });
  if (json) return printJson(finding);
  const { workflowId, jobId, followUpId, text } = finding;
  const ids = [jobId && `job ${jobId}`, followUpId && `follow-up ${followUpId}`].filter(Boolean).join(', ');
  printToStderr(printable(`${workflowId}  ${finding.finding}  ${ids === '' ? '' : `${ids}: `}${text}`));
}
