import type { Command } from 'commander';
import type { VisitorExportRange } from '../contract.js';
import { print, printJson, printToStderr, withSession, type Session } from './session.js';
import { addSnapshotsOption, openSnapshots, type SnapshotsFlags } from './snapshots-option.js';
import { printable } from './text.js';

interface CleanFlags extends SnapshotsFlags {
  dryRun?: boolean;
  json?: boolean;
}

export function addExportClean(group: Command): void {
  const command = group
    .command('clean')
    .description(
      'remove work in progress of date ranges that no run is writing, and what was replaced over 30 days ago',
    )
    .option('--dry-run', 'show what would be removed, and remove nothing')
    .option('--json', 'print one folder a line');
  addSnapshotsOption(command).action((flags: CleanFlags) => clean(command, flags));
}

async function clean(command: Command, flags: CleanFlags): Promise<void> {
  const { finishPublication } = await import('../snapshots/publish.js');
  const { stagedRanges, cleanUpStaging } = await import('../snapshots/staging.js');
  const { stagingFolder } = await import('../snapshots/layout.js');
  const { removeExpired } = await import('../snapshots/superseded.js');
  const store = await openSnapshots(flags);
  const dryRun = flags.dryRun === true;
  await withSession(command, async (session) => {
    let removed = 0;
    const told = (folder: string) => {
      removed += 1;
      if (flags.json) printJson({ folder });
      else print(printable(folder));
    };
    for (const range of await stagedRanges(store)) {
      if (await isBeingWritten(session, range)) {
        printToStderr(`agent-jobs: ${printable(stagingFolder(range))} stays: a run is writing this date range`);
        continue;
      }
      if (!dryRun) {
        await finishPublication(store, range); // else its rows would lie beside the manifest of others
        await cleanUpStaging(store, range);
      }
      told(stagingFolder(range));
    }
    for (const folder of await removeExpired(store, Date.now(), undefined, { dryRun })) told(folder);
    if (!flags.json) print(`${removed} folders ${dryRun ? 'would be ' : ''}removed`);
  });
}

/** Whether the date range's one writer runs; what lies in staging is then its own. */
async function isBeingWritten({ jobs, signal }: Session, range: VisitorExportRange): Promise<boolean> {
  const { temporalCall } = await import('../client/temporal-call.js');
  const { visitorExportWorkflowId } = await import('../contract.js');
  const { WorkflowNotFoundError } = await import('@temporalio/client');
  const handle = jobs.client.workflow.getHandle(visitorExportWorkflowId(range.projectId, range.dateFrom, range.dateTo));
  try {
    const { status } = await temporalCall(jobs.client, { signal }, () => handle.describe());
    return status.name === 'RUNNING';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}
