/** Traces of a command's calls: the start of a job is the root of its trace, or a child of whatever ran the command. */
import type { WorkflowClientInterceptor } from '@temporalio/client';

/** What a command with traces has besides. */
export interface CommandTracing {
  interceptors: { workflow: WorkflowClientInterceptor[] };
  /** Sends what was traced, for a short time at most. */
  end: () => Promise<void>;
}

/** A command does not wait longer for a collector, and its process ends then. */
const END_LIMIT_MS = 1_000;

/**
 * Loads OpenTelemetry where traces are on; null where they are off. Settings that are wrong here may be right for other
 * programs of the same shell: they are told, and the command goes on without traces.
 */
export async function openTracing(version: string, warn: (line: string) => void): Promise<CommandTracing | null> {
  const { readTracing, readParentTrace } = await import('../config/tracing.js');
  if (!orFalse(readTracing, warn)) return null;
  const { Tracer } = await import('../temporal/tracer.js');
  const { traceCalls } = await import('../temporal/trace-interceptor.js');
  const tracer = new Tracer({
    serviceName: 'agent-jobs',
    version,
    timeoutMs: END_LIMIT_MS,
    // A command's answer does not depend on it.
    onProblem: () => {},
  });
  return {
    interceptors: { workflow: [traceCalls(tracer, readParentTrace())] },
    end: () => tracer.end(END_LIMIT_MS),
  };
}

function orFalse(read: () => boolean, warn: (line: string) => void): boolean {
  try {
    return read();
  } catch (error) {
    warn(`agent-jobs: traces are off: ${(error as Error).message}`);
    return false;
  }
}
