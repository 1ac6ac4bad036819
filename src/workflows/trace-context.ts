/**
 * Hands on the trace context of the caller that started a workflow: to its activities, its children, its next run and
 * its log lines. Without a context it adds nothing. No interceptor awaits, so a workflow's commands keep their order.
 */
import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import type { WorkflowInterceptorsFactory } from '@temporalio/workflow';
import { contextIn, TRACE_HEADER, traceIdOf, type TraceContext } from '../contract/trace-context.js';

/** Loaded with the workflows of every worker; called once for each workflow. */
export const interceptors: WorkflowInterceptorsFactory = () => {
  let context: TraceContext | null = null;
  const handedOn = <T extends { headers: Headers }>(input: T): T =>
    context
      ? { ...input, headers: { ...input.headers, [TRACE_HEADER]: defaultPayloadConverter.toPayload(context) } }
      : input;
  return {
    inbound: [
      {
        execute(input, next) {
          context = contextIn(input.headers);
          return next(input);
        },
      },
    ],
    outbound: [
      {
        scheduleActivity: (input, next) => next(handedOn(input)),
        startChildWorkflowExecution: (input, next) => next(handedOn(input)),
        continueAsNew: (input, next) => next(handedOn(input)),
        getLogAttributes: (input, next) => next(context ? { ...input, trace_id: traceIdOf(context) } : input),
      },
    ],
  };
};
