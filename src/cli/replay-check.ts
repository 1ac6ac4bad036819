/** `replay-check`: replays histories of the namespace with this release. May it be rolled out? */
import type { Command } from 'commander';
import { CommandError } from './exit.js';
import { toLimit } from './options.js';
import type { ReplayReport } from './replay-histories.js';
import { print, printJson, printToStderr, withSession } from './session.js';
import { countOf, printable, showRows } from './show.js';

const DEFAULT_SINCE = '7d';
const DEFAULT_RUNS = 1_000;
/** The text for a person names at most 20 misfits, and at most 20 runs that could not be read. */
const MAX_SHOWN = 20;

const HELP = `
Open runs are replayed first, and all of them count, whatever their age.
Exit code: 0 all that was read replays; 1 a history does not fit, or could not be read;
2 wrong usage, 11 Temporal did not answer, 130 interrupted`;

interface ReplayFlags {
  since: string;
  limit: string;
  taskQueue?: string;
  json?: boolean;
}

/** Adds `replay-check`, which says whether this release may be rolled out. */
export function addReplayCheck(program: Command): void {
  const command = program
    .command('replay-check')
    .description('replay histories with this release: may it be rolled out?')
    .option('--since <duration>', 'also the runs that closed within this time', DEFAULT_SINCE)
    .option('--limit <number>', 'at most this many runs, 0 for all', String(DEFAULT_RUNS))
    .option('--json', 'print one line of JSON')
    .addHelpText('after', HELP)
    .action(() => replayCheck(command, command.optsWithGlobals<ReplayFlags>()));
}

async function replayCheck(command: Command, flags: ReplayFlags): Promise<void> {
  const { duration } = await import('../contract/kinds.js');
  const since = new Date(Date.now() - duration().check(flags.since, '--since'));
  const limit = toLimit(flags.limit);
  const { taskQueue, json: isJson = false } = flags;
  await withSession(command, async ({ jobs: { client }, signal }) => {
    const { silenceReplays } = await import('../temporal/replay-worker.js');
    const { replayHistories } = await import('./replay-histories.js');
    const { loadWorkflowBundle } = await import('../temporal/workflow-bundle.js');
    const end = silenceReplays();
    const { payloadCodecs } = client.options.loadedDataConverter;
    const bundle = loadWorkflowBundle();
    const options = { ...bundle, dataConverter: { ...bundle.dataConverter, payloadCodecs } };
    const replaying = replayHistories(client, { since, limit, taskQueue }, signal, options);
    const report = await replaying.finally(() => void end());
    const bad = verdict(report);
    if (isJson) printJson({ mayRollOut: bad === null, ...report });
    else printReport(report);
    if (bad !== null) throw new CommandError('error', bad);
    if (!isJson) print(goodVerdict(report, client.options.namespace));
  });
}

function printReport({ fits, misfits, unread, isCut }: ReplayReport): void {
  const rows = Object.entries(fits).map(([workflowType, count]) => ({ workflowType, fits: count }));
  if (rows.length > 0) print(`${showRows(rows, ['workflowType', 'fits'])}\n`);
  if (isCut) print('Not replayed: the runs above --limit');
  for (const { workflowId, runId, problem } of unread.slice(0, MAX_SHOWN)) {
    printToStderr(printable(`agent-jobs: not read: ${workflowId} (run ${runId}): ${problem}`));
  }
  for (const { workflowType, workflowId, runId, eventId, problem } of misfits.slice(0, MAX_SHOWN)) {
    const run = `${workflowType} ${workflowId} (run ${runId})${eventId === null ? '' : `, event ${eventId}`}`;
    printToStderr(printable(`agent-jobs: does not fit: ${run}: ${problem}`));
  }
}

/** Why the release may not be rolled out; null if it may. */
function verdict({ misfits, unread }: ReplayReport): string | null {
  if (misfits.length > 0) return `do not roll out: ${countOf(misfits.length, 'run')} can not be replayed`;
  return unread.length > 0 ? `it is not known: ${countOf(unread.length, 'run')} could not be read` : null;
}

function goodVerdict({ fits }: ReplayReport, namespace: string): string {
  const count = Object.values(fits).reduce((sum, one) => sum + one, 0);
  if (count > 0) return `This release may be rolled out: ${countOf(count, 'run')} replayed, and all fit.`;
  return `Nothing was replayed: namespace "${namespace}" holds no such run. That says nothing about this release.`;
}
