/** The upstream's writes, as the figures name them. */
export type WriteOperation = 'create' | 'message';

/**
 * Figures that an operator can alert on. Recording never fails and never blocks.
 * The names that Prometheus sees are in docs/operations.md.
 */
export interface Metrics {
  /** One send of a write has ended: `taken`, `rejected`, `notTaken`, `notSent` or `unknown`. */
  readonly writeEnded: (operation: WriteOperation, outcome: string) => void;
  /** Seconds from the moment a write was asked for until its outcome was known. */
  readonly writeSettled: (operation: WriteOperation, seconds: number) => void;
  /** The upstream answered an operation, or failed to: a class such as `2xx`, or what went wrong. */
  readonly upstreamAnswered: (operation: string, answerClass: string) => void;
  /** How many running jobs wait for a person. */
  readonly needAttention: (jobs: number) => void;
  /** Seconds since the end of the project's last day with a consistent export. */
  readonly lastConsistentDayAge: (projectId: string, seconds: number) => void;
  /** How many recent days of the project no night has exported well. */
  readonly exportGaps: (projectId: string, days: number) => void;
  /** The project has no nightly export any more. */
  readonly exportsRemoved: (projectId: string) => void;
  /** How many workers ask for exports. */
  readonly exportPollers: (pollers: number) => void;
}

/** For tests, and for code that runs outside a worker. */
export const noMetrics: Metrics = {
  writeEnded: () => {},
  writeSettled: () => {},
  upstreamAnswered: () => {},
  needAttention: () => {},
  lastConsistentDayAge: () => {},
  exportGaps: () => {},
  exportsRemoved: () => {},
  exportPollers: () => {},
};
