import type { Command } from 'commander';
import type { VisitorExportRange } from '../contract.js';
import type { SnapshotStore } from '../snapshots/snapshot-store.js';
import { addYesOption, confirm, type ConfirmFlags } from './ask.js';
import { print, printJson, printToStderr, withSession, type Session } from './session.js';
import { addSnapshotsOption, openSnapshots, type SnapshotsFlags } from './snapshots-option.js';
import { countOf } from './text.js';

interface CleanFlags extends SnapshotsFlags, ConfirmFlags {
  dryRun?: boolean;
}

export function addExportClean(group: Command): void {
  const command = group
    .command('clean')
    .description(
      'remove work in progress of date ranges that no run is writing, and what was replaced over 30 days ago',
    )
    .option('--dry-run', 'show what would be removed, and remove nothing')
    .option('--json', 'print one folder a line');
  addSnapshotsOption(addYesOption(command)).action((flags: CleanFlags) => clean(command, flags));
}

async function clean(command: Command, flags: CleanFlags): Promise<void> {
  const { stagedRanges } = await import('../snapshots/staging.js');
  const { removeExpired } = await import('../snapshots/superseded.js');
  const store = await openSnapshots(flags);
  const dryRun = flags.dryRun === true;
  const now = Date.now();
  await withSession(command, async (session) => {
    let removed = 0;
    const told = (folder: string) => {
      removed += 1;
      if (flags.json) printJson({ folder });
      else print(folder);
    };
    const ranges = await stagedRanges(store);
    if (!dryRun) await confirm(() => questionOf(session, store, ranges, now), flags, session.signal);
    for (const range of ranges) {
      const folder = await cleanRange(session, store, range, dryRun);
      if (folder !== null) told(folder);
    }
    for (const folder of await removeExpired(store, now, undefined, { dryRun })) told(folder);
    if (!flags.json) print(`${removed} folders ${dryRun ? 'would be ' : ''}removed`);
  });
}

/** Null where nothing would be removed. */
async function questionOf(
  session: Session,
  store: SnapshotStore,
  ranges: readonly VisitorExportRange[],
  now: number,
): Promise<string | null> {
  const { removeExpired } = await import('../snapshots/superseded.js');
  let staged = 0;
  for (const range of ranges) if (!(await isBeingWritten(session, range))) staged += 1;
  const expired = (await removeExpired(store, now, undefined, { dryRun: true })).length;
  if (staged + expired === 0) return null;
  const what = `work in progress of ${countOf(staged, 'date range')}, and ${countOf(expired, 'replaced snapshot')}`;
  return `Remove ${countOf(staged + expired, 'folder')} at ${store.url} (${what}), which can not be undone?`;
}

/** The folder that is gone; null where a run is writing the date range: it may have begun since the question. */
async function cleanRange(
  session: Session,
  store: SnapshotStore,
  range: VisitorExportRange,
  dryRun: boolean,
): Promise<string | null> {
  const { stagingFolder } = await import('../snapshots/layout.js');
  const { finishPublication } = await import('../snapshots/publish.js');
  const { cleanUpStaging } = await import('../snapshots/staging.js');
  const folder = stagingFolder(range);
  if (await isBeingWritten(session, range)) {
    printToStderr(`agent-jobs: ${folder} stays: a run is writing this date range`);
    return null;
  }
  if (dryRun) return folder;
  await finishPublication(store, range); // else its rows would lie beside the manifest of others
  await cleanUpStaging(store, range);
  return folder;
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
