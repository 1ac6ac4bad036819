/** Which snapshot of a date range replaces which. The publication (publish.ts) carries it out. */
import type { SnapshotManifest } from '../contract.js';
import { hasLostMost } from './plausibility.js';

/** The fate of a finished scan: the current snapshot stays, gets a new manifest alone, or is replaced. */
type Publication = 'keep' | 'manifest' | 'replace';

/** Decides what replaces what; `current` is null where there is no snapshot, or none that is whole. */
export function choosePublication(current: SnapshotManifest | null, candidate: SnapshotManifest): Publication {
  if (!current) return 'replace';
  // A provisional snapshot, even a consistent one, gives way to what was read when the day was over.
  const isOnlyProvisional = current.provisional && !candidate.provisional;
  if (current.consistent && !candidate.consistent && !isOnlyProvisional) return 'keep';
  if (!candidate.consistent && hasLostMost(candidate.rows, current.rows)) return 'keep';
  if (current.snapshotId !== candidate.snapshotId) return 'replace';
  const isConfirmed = candidate.consistent && !current.consistent;
  return isConfirmed || isOnlyProvisional ? 'manifest' : 'keep';
}

/** Whether the published scan began later: a stalled writer may wake after others have published. */
export function isNewer(published: SnapshotManifest, candidate: Pick<SnapshotManifest, 'exportedAt'>): boolean {
  return Date.parse(published.exportedAt) > Date.parse(candidate.exportedAt);
}
