import type { Metrics } from '../../src/activities/metrics.js';

/** Figures that nobody looks at. */
export const noMetrics: Metrics = {
  writeEnded: () => {},
  writeSettled: () => {},
  keyRefused: () => {},
  endSeen: () => {},
  readBegins: () => {},
  snapshotPublished: () => {},
  exportFailed: () => {},
};
