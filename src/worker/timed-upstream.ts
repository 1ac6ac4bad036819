import type { Metrics } from '../activities/metrics.js';
import type { Upstream } from '../upstream/upstream.js';

/** The same upstream; what each call took is recorded, whatever it ended in. */
export function timedUpstream(upstream: Upstream, { upstreamTook }: Pick<Metrics, 'upstreamTook'>): Upstream {
  const timed = async <T>(operation: string, call: Promise<T>): Promise<T> => {
    const startedAt = performance.now();
    try {
      return await call;
    } finally {
      upstreamTook(operation, (performance.now() - startedAt) / 1_000);
    }
  };
  return {
    createJob: (...request) => timed('create', upstream.createJob(...request)),
    sendMessage: (...request) => timed('message', upstream.sendMessage(...request)),
    getJob: (...request) => timed('get', upstream.getJob(...request)),
    keyVersion: (projectId) => upstream.keyVersion(projectId),
    getVisitors: (...request) => timed('visitors', upstream.getVisitors(...request)),
  };
}
