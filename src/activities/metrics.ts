/** What activities report to the metrics: its names, and the words of its labels. Prometheus is not known here. */

/** The upstream's writes, as the metrics name them. */
export type WriteOperation = 'create' | 'message';

/** What a send of a write may end in. */
export const WRITE_OUTCOMES = [
  ...['accepted', 'rejected', 'throttled', 'unauthorized', 'blocked', 'notDelivered', 'inDoubt'],
] as const;

/** What a publication may come to: `kept` is an earlier snapshot that a scan with drift did not replace. */
export const SNAPSHOT_VERDICTS = ['consistent', 'inconsistent', 'kept'] as const;
/** One of them. */
export type SnapshotVerdict = (typeof SNAPSHOT_VERDICTS)[number];

/**
 * What activities report to the metrics on which an operator can alert. Recording never fails and never blocks.
 * The names that Prometheus sees are in docs/operations.md.
 */
export interface Metrics {
  /** One send of a write has ended, with one of WRITE_OUTCOMES. */
  readonly writeEnded: (operation: WriteOperation, outcome: string) => void;
  /** Seconds from the moment a write was asked for until its outcome was known. */
  readonly writeEndedAfter: (operation: WriteOperation, seconds: number) => void;
  /** A poll showed a status that the interface does not name. */
  readonly unknownStatus: (projectId: string) => void;
  /** A poll found that a job has ended, at most `seconds` ago. */
  readonly endSeen: (lateBySeconds: number) => void;
  /** A poll that this worker holds begins `seconds` after it was due. */
  readonly pollBegins: (lateBySeconds: number) => void;
  /** A scan of a date range was published, or an earlier snapshot kept in its place. */
  readonly snapshotPublished: (verdict: SnapshotVerdict) => void;
  /** Rows of a published snapshot were left out because they are not as the interface says. */
  readonly malformedRows: (count: number) => void;
  /** A step of an export failed, by the type of its failure. */
  readonly exportFailed: (type: string) => void;
}
