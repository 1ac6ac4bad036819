import type { Command } from 'commander';
import type { SnapshotStore } from '../snapshots/snapshot-store.js';
import { EXIT, UsageError } from './exit.js';
import { printToStderr } from './session.js';
import { printable } from './text.js';

export interface SnapshotsFlags {
  snapshots?: string;
}

/** Adds the option that says where the snapshots lie. */
export function addSnapshotsOption(command: Command): Command {
  return command.option('--snapshots <url>', 'file:///dir or s3://bucket/prefix (default: SNAPSHOTS_URL)');
}

/** Opens the store that the option or SNAPSHOTS_URL names; throws a UsageError or ConfigError. */
export async function openSnapshots({ snapshots }: SnapshotsFlags): Promise<SnapshotStore> {
  const { processEnvironment, readSnapshotsConfig } = await import('../config.js');
  const { openStore } = await import('../snapshots/open-store.js');
  const named = snapshots ?? processEnvironment['SNAPSHOTS_URL'];
  if (!named)
    throw new UsageError(
      'say where the snapshots are: --snapshots or SNAPSHOTS_URL, file:///dir or s3://bucket/prefix',
    );
  try {
    const { url, forcePathStyle } = readSnapshotsConfig({ ...processEnvironment, SNAPSHOTS_URL: named });
    return await openStore(url, { forcePathStyle });
  } catch (error) {
    throw snapshots === undefined ? error : await blamedOnFlag(error);
  }
}

/** A wrong value of the flag is a usage error that names the flag; other settings are told as they are. */
async function blamedOnFlag(error: unknown): Promise<unknown> {
  const { ConfigError } = await import('../config.js');
  if (!(error instanceof ConfigError)) return error;
  const wrong = error.problems.find(({ variable }) => variable === 'SNAPSHOTS_URL');
  return wrong ? new UsageError(`--snapshots ${wrong.problem}`) : error;
}

/**
 * Says that nothing was found, and fails: no output could pass for a good answer, and a mistyped name for a clean one.
 */
export function tellNone(store: SnapshotStore, project: string | undefined): void {
  process.exitCode = EXIT.error;
  const whose = project === undefined ? '' : ` of project ${printable(project)}`;
  printToStderr(`agent-jobs: no snapshots${whose} in this range at ${store.url}`);
}
