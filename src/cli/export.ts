import type { Command } from 'commander';
import { addExportBackfill } from './export-backfill.js';
import { addExportClean } from './export-clean.js';
import { addExportCsv } from './export-csv.js';
import { addExportInspect } from './export-inspect.js';
import { addExportRun } from './export-run.js';

/** `agent-jobs export …`: make snapshots of visitors, and tell what there is. */
export function addExport(program: Command): void {
  const group = program.command('export').description('export visitors into snapshots, and check what there is');
  addExportRun(group);
  addExportBackfill(group);
  addExportInspect(group);
  addExportCsv(group);
  addExportClean(group);
}
