/** The upstream's writes, as the figures name them. */
export type WriteOperation = 'create' | 'message';

/** What a send of a write may end in. */
export const WRITE_OUTCOMES = ['accepted', 'rejected', 'throttled', 'unauthorized', 'notDelivered', 'inDoubt'] as const;

/** What a publication may come to: `kept` is an earlier snapshot that a scan with drift did not replace. */
export const SNAPSHOT_VERDICTS = ['consistent', 'inconsistent', 'kept'] as const;
export type SnapshotVerdict = (typeof SNAPSHOT_VERDICTS)[number];

/**
 * Figures that an operator can alert on. Recording never fails and never blocks.
 * The names that Prometheus sees are in docs/monitoring.md.
 */
export interface Metrics {
  /** One send of a write has ended, with one of WRITE_OUTCOMES. */
  readonly writeEnded: (operation: WriteOperation, outcome: string) => void;
  /** Seconds from the moment a write was asked for until its outcome was known. */
  readonly writeSettled: (operation: WriteOperation, seconds: number) => void;
  /** The upstream answered an operation, or failed to: a class such as `2xx`, or what went wrong. */
  readonly upstreamResponded: (operation: string, responseClass: string) => void;
  /** The upstream refused the key of a request (401), or there was none to make it with. */
  readonly keyRefused: (operation: string) => void;
  /** How many projects' keys are refused or missing, as this worker's last requests showed. */
  readonly refusedKeys: (projects: number) => void;
  /** Seconds that a call of the upstream took, whatever it ended in. */
  readonly upstreamTook: (operation: string, seconds: number) => void;
  /** A read found that a job has ended, at most so many seconds ago. */
  readonly endSeen: (lateBySeconds: number) => void;
  /** A read of a poll that this worker holds begins so many seconds after it was due. */
  readonly readBegins: (lateBySeconds: number) => void;
  /** How many polls this worker holds between their reads. */
  readonly pollsHeld: (polls: number) => void;
  /** Whether the worker polls and reaches Temporal. */
  readonly ready: (isReady: boolean) => void;
  /** How many running jobs wait for a person. */
  readonly needAttention: (jobs: number) => void;
  /** How many running jobs are in a phase. */
  readonly openJobs: (phase: string, jobs: number) => void;
  /** How many running jobs wait for a reason. */
  readonly waitingJobs: (reason: string, jobs: number) => void;
  /** How many queues of requests run. */
  readonly requestQueues: (queues: number) => void;
  /**
   * How long the oldest job without an id has waited for it, and the oldest write in doubt for a decision; 0 where
   * there is none.
   */
  readonly oldest: (what: 'create' | 'inDoubt', seconds: number) => void;
  /** The counts over the namespace were brought up to date. */
  readonly counted: () => void;
  /** Seconds since the end of the project's last day with a consistent export. */
  readonly lastConsistentDayAge: (projectId: string, seconds: number) => void;
  /** How many recent days of the project no night has exported well. */
  readonly exportGaps: (projectId: string, days: number) => void;
  /** The project has no nightly export any more. */
  readonly exportsRemoved: (projectId: string) => void;
  /** A scan of a date range was published, or an earlier snapshot kept in its place. */
  readonly snapshotPublished: (verdict: SnapshotVerdict) => void;
  /** A step of an export failed, by the type of its failure. */
  readonly exportFailed: (type: string) => void;
  /** How many workers ask for exports. */
  readonly exportPollers: (pollers: number) => void;
  /** A delivery of a webhook was tried: `delivered`, `gone` or `failed`, by the receiver's origin. */
  readonly webhookTried: (receiver: string, result: string) => void;
  /** Whether the file of the webhooks' endpoints is wrong. */
  readonly webhooksWrong: (isWrong: boolean) => void;
  /** This worker, which has payload keys, read payloads that nobody had encrypted. */
  readonly plainPayloadsRead: (payloads: number) => void;
}

/** For tests, and for code that runs outside a worker. */
export const noMetrics: Metrics = {
  writeEnded: () => {},
  writeSettled: () => {},
  upstreamResponded: () => {},
  keyRefused: () => {},
  refusedKeys: () => {},
  upstreamTook: () => {},
  endSeen: () => {},
  readBegins: () => {},
  pollsHeld: () => {},
  ready: () => {},
  needAttention: () => {},
  openJobs: () => {},
  waitingJobs: () => {},
  requestQueues: () => {},
  oldest: () => {},
  counted: () => {},
  lastConsistentDayAge: () => {},
  exportGaps: () => {},
  exportsRemoved: () => {},
  snapshotPublished: () => {},
  exportFailed: () => {},
  exportPollers: () => {},
  webhookTried: () => {},
  webhooksWrong: () => {},
  plainPayloadsRead: () => {},
};
