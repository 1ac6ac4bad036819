/** The upstream's writes and how they end, as the figures name them. */
export type WriteOperation = 'create' | 'followUp';
export type WriteOutcome = 'sent' | 'rejected' | 'notTaken' | 'notSent' | 'unknown';

/**
 * Figures that an operator can alert on. Recording never fails and never blocks.
 * Names of metrics are in docs/operations.md.
 */
export interface Metrics {
  /** One send of a write has ended, as known when its activity attempt ends. */
  writeEnded(operation: WriteOperation, outcome: WriteOutcome): void;
  /** Seconds from the moment a write was queued until its fate was known. */
  writeSettled(operation: WriteOperation, seconds: number): void;
  /** The upstream answered an operation, or failed to: `class` is `2xx` … `5xx`, or what went wrong. */
  upstreamAnswered(operation: string, answerClass: string): void;
  /** How many running jobs wait for a person. */
  needAttention(jobs: number): void;
  /** Seconds since the end of the project's last day with a consistent export. */
  lastConsistentDayAge(projectId: string, seconds: number): void;
}

/** For tests, and for code that runs outside a worker. */
export const noMetrics: Metrics = {
  writeEnded: () => {},
  writeSettled: () => {},
  upstreamAnswered: () => {},
  needAttention: () => {},
  lastConsistentDayAge: () => {},
};
