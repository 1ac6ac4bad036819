import type { Command } from 'commander';
import { EXIT } from './exit.js';
import { toLimit } from './flags.js';
import type { ReplayReport, ReplayTally } from './replay-histories.js';
import { print, printJson, printToStderr, withSession } from './session.js';
import { countOf, printable, showRows } from './show.js';

const DEFAULT_SINCE = '7d';
const DEFAULT_LIMIT = 1_000;

const EXITS = `
Open runs are replayed first, and all of them count, whatever their age.
Exit code: 0 all that was read replays; 1 a history does not fit, or could not be read;
2 wrong usage, 11 Temporal did not answer, 130 interrupted`;

interface ReplayFlags {
  since: string;
  limit: string;
  taskQueue?: string;
  json?: boolean;
}

/** Adds `replay-check`, which tells whether this release may be rolled out. */
export function addReplayCheck(program: Command): void {
  const command = program
    .command('replay-check')
    .description('replay histories with this release: may it be rolled out?')
    .option('--since <duration>', 'also the runs that closed within this time', DEFAULT_SINCE)
    .option('--limit <number>', 'at most this many runs, 0 for all', String(DEFAULT_LIMIT))
    .option('--json', 'print one line of JSON')
    .addHelpText('after', EXITS)
    .action(() => replayCheck(command, command.optsWithGlobals<ReplayFlags>()));
}

async function replayCheck(command: Command, flags: ReplayFlags): Promise<void> {
  const { checkDuration } = await import('../contract/input-checks.js');
  const since = new Date(Date.now() - checkDuration(flags.since, '--since'));
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
    const report = await replayHistories(client, { since, limit, taskQueue }, signal, options).finally(
      () => void end(),
    );
    const mayRollOut = report.misfits.length === 0 && report.unread.length === 0;
    if (isJson) printJson({ mayRollOut, ...report });
    else printReport(report, client.options.namespace);
    if (!mayRollOut) process.exitCode = EXIT.error;
  });
}

function printReport(report: ReplayReport, namespace: string): void {
  const rows = Object.entries(report.types).map(([workflowType, tally]) => ({ workflowType, ...tally }));
  if (rows.length > 0) print(`${showRows(rows, ['workflowType', 'fits', 'misfits', 'unread'])}\n`);
  if (report.left > 0) print(`Not replayed: ${countOf(report.left, 'run')} above --limit`);
  for (const { workflowId, runId, problem } of report.unread) {
    printToStderr(printable(`agent-jobs: not read: ${workflowId} (run ${runId}): ${problem}`));
  }
  for (const misfit of report.misfits) {
    const { workflowType, workflowId, runId, eventId, problem } = misfit;
    const event = eventId === null ? '' : `, event ${eventId}`;
    printToStderr(
      printable(`agent-jobs: does not fit: ${workflowType} ${workflowId} (run ${runId})${event}: ${problem}`),
    );
  }
  print(verdict(report, namespace));
}

function verdict({ types, misfits, unread }: ReplayReport, namespace: string): string {
  const total = (key: keyof ReplayTally) => Object.values(types).reduce((sum, tally) => sum + tally[key], 0);
  const fits = total('fits');
  if (misfits.length > 0) {
    const replayed = countOf(fits + total('misfits'), 'run');
    return `Do not roll out: ${total('misfits')} of ${replayed} can not be replayed.`;
  }
  if (unread.length > 0) return `Nobody knows: ${countOf(total('unread'), 'run')} could not be read.`;
  if (fits > 0) return `This release may be rolled out: ${countOf(fits, 'run')} replayed, and all fit.`;
  return `Nothing was replayed: namespace "${namespace}" holds no such run. That says nothing about this release.`;
}
