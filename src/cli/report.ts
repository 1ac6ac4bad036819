import { writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { print } from './session.js';
import type { SnapshotStore } from '../snapshots/snapshot-store.js';
import { addSnapshotsOption, openSnapshots, tellNone, type SnapshotsFlags } from './snapshots-option.js';

interface ReportFlags extends SnapshotsFlags {
  project: string;
  output?: string;
}

export function addReport(program: Command): void {
  const command = program
    .command('report')
    .description('make the HTML report of a project from its snapshots; the nightly export makes it, too')
    .requiredOption('--project <id>', 'the upstream project')
    .option('--output <file>', 'write it to this file, "-" is stdout (default: beside the snapshots)');
  addSnapshotsOption(command).action(async (flags: ReportFlags) => {
    const { buildReport, writeReport } = await import('../report/report.js');
    const store = await openSnapshots(flags);
    const generatedAt = new Date().toISOString();
    const { project, output } = flags;
    // The report of a mistyped name would be a page that says so little.
    if (!(await hasSnapshots(store, project))) return tellNone(store, project);
    if (output === undefined) return print(await writeReport(store, project, generatedAt));
    const page = await buildReport(store, project, generatedAt);
    if (output === '-') return void process.stdout.write(page);
    await writeFile(output, page);
    print(output);
  });
}

async function hasSnapshots(store: SnapshotStore, projectId: string): Promise<boolean> {
  const { listManifests } = await import('../snapshots/catalog.js');
  for await (const _ of listManifests(store, projectId)) return true;
  return false;
}
