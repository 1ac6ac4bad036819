import type { WorkflowExecutionInfo } from '@temporalio/client';
import type { Command } from 'commander';
import type { SnapshotReceipt, VisitorExportRange, VisitorExportResult } from '../contract.js';
import type { SnapshotStore } from '../snapshots/snapshot-store.js';
import { EXIT } from './exit.js';
import { runExport } from './export-run.js';
import { addPriorityOption, toPriority } from './job-options.js';
import { print, printJson, printToStderr, withSession, type Session } from './session.js';
import { addSnapshotsOption, openSnapshots, type SnapshotsFlags } from './snapshots-option.js';
import { countOf, printable } from './text.js';

interface RecoverFlags extends SnapshotsFlags {
  project?: string;
  priority?: string;
  dryRun?: boolean;
  json?: boolean;
}

/** What the store lacks: `older` is another snapshot than the newest run's, exported before that run. */
type Lack = 'missing' | 'damaged' | 'older';

/** A date range of which a run's result tells a snapshot that the store lacks. */
interface Lost extends VisitorExportRange {
  state: Lack;
  snapshotId: string;
}

/** The nightly exports go first. */
const RECOVER_PRIORITY = '4';

/** Adds `export recover`, which finds by Temporal's own runs what the store should hold. */
export function addExportRecover(group: Command): void {
  const command = group
    .command('recover')
    .description('export anew what finished runs have published and the store has lost; exit code 13 where any differs')
    .option('--project <id>', 'of one project')
    .option('--dry-run', 'show what the store lacks, and export nothing')
    .option('--json', 'print one date range a line');
  addPriorityOption(command, 'who goes first where exports wait for their shared budget', RECOVER_PRIORITY);
  addSnapshotsOption(command).action((flags: RecoverFlags) => recover(command, flags));
}

async function recover(command: Command, flags: RecoverFlags): Promise<void> {
  const priority = toPriority(flags.priority ?? RECOVER_PRIORITY) ?? null;
  const store = await openSnapshots(flags);
  await withSession(command, async (session) => {
    const count = { published: 0, lost: 0, same: 0 };
    for (const run of await newestRuns(session, flags.project)) {
      session.signal.throwIfAborted();
      count.published += 1;
      const lost = await readLost(session, store, run);
      if (lost === null) continue;
      count.lost += 1;
      const exported = flags.dryRun === true ? null : await exportAnew(session, lost, priority);
      if (exported?.snapshotId === lost.snapshotId) count.same += 1;
      tell(lost, exported, flags);
    }
    const { published, lost, same } = count;
    const fates = flags.dryRun === true ? '' : `: ${same} came back as before, ${lost - same} did not`;
    const summary = `${countOf(published, 'date range')} published, ${lost} lost${lost === 0 ? '' : fates}`;
    if (flags.json) printToStderr(`agent-jobs: ${summary}`);
    else print(summary);
    if (lost > same) process.exitCode = EXIT.notAll;
  });
}

interface RangeRun {
  range: VisitorExportRange;
  run: WorkflowExecutionInfo;
}

/** The newest finished run of each date range that Temporal still keeps. */
async function newestRuns({ jobs, signal }: Session, projectId: string | undefined): Promise<RangeRun[]> {
  const { VISITOR_EXPORT_WORKFLOW } = await import('../contract.js');
  const { rangeFolderOf } = await import('../snapshots/catalog.js');
  const newest = new Map<string, RangeRun>();
  const query = `WorkflowType = '${VISITOR_EXPORT_WORKFLOW}' AND ExecutionStatus = 'Completed'`;
  for await (const run of jobs.client.workflow.list({ query })) {
    signal.throwIfAborted();
    const [, project, from, to] = /^visitor-export\/([^/]+)\/([\d-]+)\.\.([\d-]+)$/.exec(run.workflowId) ?? [];
    const range = rangeFolderOf(`visitors/projectId=${project}/dateFrom=${from}/dateTo=${to}/`);
    if (range === null || (projectId !== undefined && range.projectId !== projectId)) continue;
    const known = newest.get(run.workflowId);
    if (known === undefined || known.run.startTime < run.startTime) newest.set(run.workflowId, { range, run });
  }
  return [...newest.values()].toSorted((a, b) => (a.run.workflowId < b.run.workflowId ? -1 : 1));
}

/** Null where the store holds what the run published, or something later. */
async function readLost({ jobs }: Session, store: SnapshotStore, { range, run }: RangeRun): Promise<Lost | null> {
  const { readManifest } = await import('../snapshots/manifest.js');
  const { isWhole } = await import('../snapshots/file-integrity.js');
  const { projectId, dateFrom, dateTo } = range;
  const handle = jobs.client.workflow.getHandle(run.workflowId, run.runId);
  // Whoever may start workflows may have given another one this id.
  const result = (await handle.result()) as Partial<VisitorExportResult> | null;
  const snapshotId: unknown = result?.snapshots?.[0]?.snapshotId;
  if (typeof snapshotId !== 'string') return null;
  const lost = (state: Lack): Lost => ({ projectId, dateFrom, dateTo, state, snapshotId });
  const manifest = await readManifest(store, range);
  if (manifest === null) return lost('missing');
  if (!(await isWhole(store, manifest))) return lost('damaged');
  const isOther = manifest.snapshotId !== snapshotId;
  return isOther && Date.parse(manifest.exportedAt) < run.startTime.getTime() ? lost('older') : null;
}

/** Null where it failed, which is reported and does not stop the others. Ctrl-C is thrown. */
async function exportAnew(
  session: Session,
  { projectId, dateFrom, dateTo }: Lost,
  priority: ReturnType<typeof toPriority> | null,
): Promise<SnapshotReceipt | null> {
  try {
    const range = { projectId, dateFrom, dateTo, priority: priority ?? null };
    return (await runExport(session, range, false)).snapshots[0] ?? null;
  } catch (error) {
    session.signal.throwIfAborted();
    if ((error as Error).name !== 'ExportFailedError') throw error;
    printToStderr(printable(`agent-jobs: ${projectId} ${dateFrom}..${dateTo}: ${(error as Error).message}`));
    return null;
  }
}

function tell(lost: Lost, exported: SnapshotReceipt | null, { dryRun = false, json }: RecoverFlags): void {
  const { projectId, dateFrom, dateTo, state, snapshotId } = lost;
  const isSame = exported?.snapshotId === snapshotId;
  if (json) {
    const now = exported?.snapshotId ?? null;
    return printJson({ projectId, dateFrom, dateTo, state, snapshotId, exported: now, isSame });
  }
  const fate =
    exported === null ? 'failed' : isSame ? 'exported: as before' : 'exported: the upstream tells other figures';
  print(printable(`${projectId}  ${dateFrom}..${dateTo}  ${state}${dryRun ? '' : `, ${fate}`}`));
}
