/**
 * The spans of jobs as a worker exports them, and the trace ids in its log lines. Off unless it is configured. The ids
 * of the first span follow from the job: each worker that takes it up gives its spans the same parent. A span that a
 * killed worker told of may come again.
 */
import { createHash } from 'node:crypto';
import type { Span } from '@opentelemetry/api';
import type { ActivityInterceptorsFactory, InjectedSinks } from '@temporalio/worker';
import { AGENT_JOB_WORKFLOW } from '../contract.js';
import { contextIn, traceIdOf, type JobSpan, type TraceSinks } from '../contract/trace-context.js';
import { releaseVersion } from '../temporal/workflow-bundle.js';
import type { Tracer } from '../temporal/tracer.js';
import { atMostEvery, type Logger } from './logging.js';

/** What a worker does for traces. */
export interface Traces {
  sinks: InjectedSinks<TraceSinks>;
  /** The trace of a job, where the line of its activity or workflow does not tell it. */
  traceIdOf: (workflowId: string, workflowType: string) => string | undefined;
  /** Sends what waits, for a short time at most. */
  end: () => Promise<void>;
}

/** Of the workflow that tells of a span. */
type WorkflowInfo = Parameters<InjectedSinks<TraceSinks>['traces']['ended']['fn']>[0];

interface TracesSettings {
  tracing: boolean;
  namespace: string;
  log: Logger;
}

/** Within the time in which a worker must have ended. */
const END_LIMIT_MS = 1_500;
/** A collector that is away for hours gives a line as often. */
const PROBLEM_EVERY_MS = 60_000;

/** As Temporal's own interceptors name them. */
const NAMES: Record<JobSpan['kind'], string> = {
  run: `RunWorkflow:${AGENT_JOB_WORKFLOW}`,
  create: 'create',
  followUp: 'followUp',
  end: `CompleteWorkflow:${AGENT_JOB_WORKFLOW}`,
};

/** Loads OpenTelemetry where traces are on, and nothing where they are off. */
export async function openTraces({ tracing, namespace, log }: TracesSettings): Promise<Traces> {
  if (!tracing) return { sinks: sinksOf(() => {}), traceIdOf: () => undefined, end: async () => {} };
  const { Tracer, fail } = await import('../temporal/tracer.js');
  const onProblem = atMostEvery(PROBLEM_EVERY_MS, (reason: string) =>
    log.warn({ reason }, 'Spans could not be exported, and are lost'),
  );
  const tracer = new Tracer({ serviceName: 'agent-jobs-worker', version: releaseVersion(), onProblem });
  log.info('Traces are on');
  return {
    sinks: sinksOf((info, span) => {
      const begun = beginSpan(tracer, info, span);
      if (span.error !== undefined) fail(begun, span.error);
      begun.end(span.endedAt);
    }),
    traceIdOf: (workflowId, type) => (type === AGENT_JOB_WORKFLOW ? ownTraceId({ namespace, workflowId }) : undefined),
    end: () => tracer.end(END_LIMIT_MS),
  };
}

function sinksOf(ended: (info: WorkflowInfo, span: JobSpan) => void): InjectedSinks<TraceSinks> {
  return { traces: { ended: { fn: ended, callDuringReplay: false } } };
}

/** All others are children of the first one, which any worker may have sent: it begins it again to know its ids. */
function beginSpan(tracer: Tracer, info: WorkflowInfo, span: JobSpan): Span {
  const root = beginRoot(tracer, info, span);
  if (span.kind === 'run') return root;
  return tracer.begin({
    name: NAMES[span.kind],
    parent: root.spanContext(),
    startTime: span.startedAt,
    attributes: { ...workflowAttributes(info), ...span.attributes },
    links: [span.sender],
  });
}

function beginRoot(tracer: Tracer, info: WorkflowInfo, { parent, startedAt }: JobSpan): Span {
  const traceId = parent ? traceIdOf(parent) : ownTraceId(info);
  return tracer.begin({
    name: NAMES.run,
    ids: { traceId, spanId: idOf(16, ['span', traceId, info.workflowId, info.firstExecutionRunId]) },
    parent,
    startTime: startedAt,
    attributes: workflowAttributes(info),
  });
}

/** The trace of a job that nobody else traces: all runs of its workflow id. */
function ownTraceId({ namespace, workflowId }: Pick<WorkflowInfo, 'namespace' | 'workflowId'>): string {
  return idOf(32, ['trace', namespace, workflowId]);
}

/** An id of zeros alone would count as none. */
function idOf(digits: number, parts: readonly string[]): string {
  const hash = createHash('sha256').update(JSON.stringify(parts)).digest('hex');
  return `${hash.slice(0, digits - 1)}${hash[digits - 1] === '0' ? '1' : hash[digits - 1]}`;
}

function workflowAttributes({ workflowId, runId }: WorkflowInfo): Record<string, string> {
  return { temporalWorkflowID: workflowId, temporalRunID: runId };
}

/** An interceptor that gives an activity's log lines the id of the trace that its workflow's caller is in. */
export const tellTraceIds: ActivityInterceptorsFactory = () => {
  let traceId: string | undefined;
  return {
    inbound: {
      execute(input, next) {
        const context = contextIn(input.headers);
        traceId = context ? traceIdOf(context) : undefined;
        return next(input);
      },
    },
    outbound: {
      getLogAttributes: (input, next) => next(traceId === undefined ? input : { ...input, trace_id: traceId }),
    },
  };
};
