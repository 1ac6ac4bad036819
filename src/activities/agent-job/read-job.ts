/** One look at a job, before a person's word about it is taken. */
import { RejectedError, UpstreamError } from '../../upstream/errors.js';
import type { Upstream } from '../../upstream/upstream.js';

export interface ReadJobInput {
  projectId: string;
  jobId: string;
}

export type ReadJobResult = { kind: 'found' } | { kind: 'notFound' } | { kind: 'failed'; reason: string };

/** The activity `readJob`: reads a job once and says whether it exists. */
export function createReadJob(
  upstream: Upstream,
  shutdownSignal: AbortSignal,
): (input: ReadJobInput) => Promise<ReadJobResult> {
  return async (input) => {
    try {
      await upstream.getJob(input, { signal: shutdownSignal });
      return { kind: 'found' };
    } catch (error) {
      if (error instanceof RejectedError && error.status === 404) return { kind: 'notFound' };
      if (error instanceof UpstreamError) return { kind: 'failed', reason: error.reason };
      // The worker shuts down: another one reads.
      throw error;
    }
  };
}
