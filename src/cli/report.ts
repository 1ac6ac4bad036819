import { writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { UsageError } from './exit.js';
import { print, printJson } from './session.js';
import type { SnapshotStore } from '../snapshots/snapshot-store.js';
import { addSnapshotsOption, openSnapshots, tellNone, type SnapshotsFlags } from './snapshots-option.js';
import { forStdout } from './text.js';

interface ReportFlags extends SnapshotsFlags {
  project: string;
  output?: string;
  json?: boolean;
}

export function addReport(program: Command): void {
  const command = program
    .command('report')
    .description('make the HTML report of a project from its snapshots; the nightly export makes it, too')
    .requiredOption('--project <id>', 'the upstream project')
    .option('--output <file>', 'write it to this file, "-" is stdout (default: beside the snapshots)')
    .option('--json', 'print where it was written as JSON');
  addSnapshotsOption(command).action(async (flags: ReportFlags) => {
    const { project: projectId, output, json } = flags;
    if (json && output === '-') throw new UsageError('--json tells where the report is: give it a file by --output');
    const store = await openSnapshots(flags);
    // The report of a mistyped name would be a page that says so little.
    if (!(await hasSnapshots(store, projectId))) return tellNone(store, projectId);
    const location = await make(store, projectId, output);
    if (location === null) return;
    if (json) printJson({ projectId, location });
    else print(location);
  });
}

/** Where it is; null for standard output. */
async function make(store: SnapshotStore, projectId: string, output: string | undefined): Promise<string | null> {
  const { buildReport, writeReport } = await import('../report/report.js');
  const generatedAt = new Date().toISOString();
  if (output === undefined) return writeReport(store, projectId, generatedAt);
  const page = await buildReport(store, projectId, generatedAt);
  if (output === '-') {
    process.stdout.write(forStdout(page));
    return null;
  }
  await writeFile(output, page);
  return output;
}

async function hasSnapshots(store: SnapshotStore, projectId: string): Promise<boolean> {
  const { listManifests } = await import('../snapshots/catalog.js');
  for await (const _ of listManifests(store, projectId)) return true;
  return false;
}
