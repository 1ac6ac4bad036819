import type { Metrics } from '../../src/activities/metrics.js';

/** Metrics that are not looked at. */
export const noMetrics: Metrics = {
  writeEnded: () => {},
  writeEndedAfter: () => {},
  unknownStatus: () => {},
  endSeen: () => {},
  pollBegins: () => {},
  snapshotPublished: () => {},
  malformedRows: () => {},
  exportFailed: () => {},
};
