import type { Command } from 'commander';
import type { SnapshotStore } from '../snapshots/snapshot-store.js';

export interface SnapshotsFlags {
  snapshots?: string;
}

/** Adds the option that says where the snapshots lie. */
export function addSnapshotsOption(command: Command): Command {
  return command.option('--snapshots <url>', 'file:///dir or s3://bucket/prefix (default: SNAPSHOTS_URL)');
}

/** Opens the store that the option or SNAPSHOTS_URL names; throws a ConfigError. */
export async function openSnapshots({ snapshots }: SnapshotsFlags): Promise<SnapshotStore> {
  const { processEnvironment, readSnapshotsConfig } = await import('../config.js');
  const { openStore } = await import('../snapshots/open-store.js');
  const { url, forcePathStyle } = readSnapshotsConfig({
    ...processEnvironment,
    ...(snapshots !== undefined && { SNAPSHOTS_URL: snapshots }),
  });
  return openStore(url, { forcePathStyle });
}
