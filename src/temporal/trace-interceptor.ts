/** Spans of a caller's calls, and the header that hands each on, as Temporal's OpenTelemetry interceptors make them. */
import { WorkflowExecutionAlreadyStartedError, type WorkflowClientInterceptor } from '@temporalio/client';
import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import { TRACE_HEADER, type TraceContext } from '../contract/trace-context.js';
import { fail, traceContextOf, type Tracer } from './tracer.js';

/** Traces what changes a workflow, each as a child of `parent`, or as a trace of its own. */
export function traceCalls(tracer: Tracer, parent: TraceContext | null): WorkflowClientInterceptor {
  const traced = async <T>(name: string, workflowId: string, call: (handOn: HandOn) => Promise<T>): Promise<T> => {
    const span = tracer.begin({ name, parent, attributes: { temporalWorkflowID: workflowId } });
    const payload = defaultPayloadConverter.toPayload(traceContextOf(span));
    try {
      return await call((headers) => ({ ...headers, [TRACE_HEADER]: payload }));
    } catch (error) {
      // Joining a job is no failure.
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) fail(span, (error as Error).name);
      throw error;
    } finally {
      span.end();
    }
  };
  return {
    startWithDetails: (input, next) =>
      traced(`StartWorkflow:${input.workflowType}`, input.options.workflowId, (handOn) =>
        next({ ...input, headers: handOn(input.headers) }),
      ),
    signal: (input, next) =>
      traced(`SignalWorkflow:${input.signalName}`, input.workflowExecution.workflowId, (handOn) =>
        next({ ...input, headers: handOn(input.headers) }),
      ),
    startUpdate: (input, next) =>
      traced(`StartWorkflowUpdate:${input.updateName}`, input.workflowExecution.workflowId, (handOn) =>
        next({ ...input, headers: handOn(input.headers) }),
      ),
    startUpdateWithStart: (input, next) =>
      traced(`UpdateWithStartWorkflow:${input.updateName}`, input.workflowStartOptions.workflowId, (handOn) =>
        next({
          ...input,
          workflowStartHeaders: handOn(input.workflowStartHeaders),
          updateHeaders: handOn(input.updateHeaders),
        }),
      ),
  };
}

type HandOn = (headers: Headers) => Headers;
