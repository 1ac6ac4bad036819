import type { Command } from 'commander';
import type { SnapshotReceipt, VisitorExportRangeInput, VisitorTotals } from '../contract.js';
import { inconsistencyText } from '../visitor-export/inconsistency.js';
import { showProgress } from './export-progress.js';
import { addRangeOptions, toExportRange, type RangeFlags } from './export-range.js';
import { addPriorityOption, toPriority } from './job-options.js';
import { print, printJson, withSession, type Session } from './session.js';
import { fields } from './text.js';

interface RunFlags extends RangeFlags {
  project: string;
  priority?: string;
  json?: boolean;
}

export function addExportRun(group: Command): void {
  const command = group
    .command('run')
    .description('export one date range now, or join its running export (default: yesterday by UTC)')
    .requiredOption('--project <id>', 'the upstream project')
    .option('--json', 'print the result as JSON');
  addPriorityOption(command, 'who goes first where exports wait for their shared budget');
  addRangeOptions(command).action(async (flags: RunFlags) => {
    const dates = await toExportRange(flags);
    const range = { projectId: flags.project, ...dates, priority: toPriority(flags.priority) ?? null };
    await withSession(command, async (session) => {
      const result = await runExport(session, range, flags.json !== true);
      if (flags.json) printJson(result);
      else for (const receipt of result.snapshots) print(receiptText(receipt));
    });
  });
}

/** Exports one date range and waits for it, with progress on stderr where `shows` is true. */
export async function runExport({ jobs, signal }: Session, range: VisitorExportRangeInput, shows: boolean) {
  const handle = await jobs.exportVisitors(range, { signal });
  const stop = shows ? await showProgress(handle, signal) : () => {};
  try {
    return await handle.result({ signal });
  } finally {
    stop();
  }
}

/** What a run made, for a person. */
function receiptText(receipt: SnapshotReceipt): string {
  const { totals, drift, consistent } = receipt;
  return fields([
    ['Snapshot', receipt.location],
    ['Dates', `${receipt.dateFrom}..${receipt.dateTo}`],
    ['Rows', String(receipt.rows)],
    ['Visitors', visitorsText(totals)],
    ['Consistent', consistent ? 'yes' : 'no, see below'],
    ['Provisional', receipt.provisional ? 'yes: the day may not be over everywhere' : null],
    ['Inconsistency', drift && `${inconsistencyText(drift)}${consistent ? '; the snapshot before was kept' : ''}`],
    ['Content', receipt.unchanged ? 'unchanged' : 'new'],
  ]);
}

/** The upstream counts each visitor once in the total. */
function visitorsText({ total, human, ai }: VisitorTotals): string {
  const why = total === human + ai ? '' : '; who came as both is in each, and once in the total';
  return `${total} (human ${human}, AI ${ai}${why})`;
}
