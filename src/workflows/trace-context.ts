/**
 * Hands the trace context of whoever started a workflow on: to its activities, its children, the next run, and its log
 * lines. Where nobody sent one, nothing is added anywhere. No interceptor here awaits: a workflow's commands keep their
 * order.
 */
import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import type { WorkflowInterceptorsFactory } from '@temporalio/workflow';
import { getActivator } from '@temporalio/workflow/lib/global-attributes.js';
import { contextIn, TRACE_HEADER, traceIdOf, type TraceContext } from '../contract/trace-context.js';

/** Of each workflow of this thread: of whoever started it. */
const parents = new WeakMap<object, TraceContext>();
/** Set while a handler of a message runs, up to its first await. */
let sender: TraceContext | null = null;

/** The context of whoever started this workflow; null where they sent none. */
export function startContext(): TraceContext | null {
  return parents.get(getActivator()) ?? null;
}

/** The context of whoever sent the message that is being handled, before the handler first waits. */
export function messageContext(): TraceContext | null {
  return sender;
}

/** Loaded with the workflows of every worker. */
export const interceptors: WorkflowInterceptorsFactory = () => ({
  inbound: [
    {
      execute(input, next) {
        const context = contextIn(input.headers);
        if (context) parents.set(getActivator(), context);
        return next(input);
      },
      handleSignal: (input, next) => sentBy(input.headers, () => next(input)),
      handleUpdate: (input, next) => sentBy(input.headers, () => next(input)),
    },
  ],
  outbound: [
    {
      scheduleActivity: (input, next) => next(handedOn(input)),
      startChildWorkflowExecution: (input, next) => next(handedOn(input)),
      continueAsNew: (input, next) => next(handedOn(input)),
      getLogAttributes(input, next) {
        const context = startContext();
        return next(context ? { ...input, trace_id: traceIdOf(context) } : input);
      },
    },
  ],
});

function sentBy<T>(headers: Headers, handle: () => T): T {
  sender = contextIn(headers);
  try {
    return handle();
  } finally {
    sender = null;
  }
}

function handedOn<T extends { headers: Headers }>(input: T): T {
  const context = startContext();
  if (!context) return input;
  return { ...input, headers: { ...input.headers, [TRACE_HEADER]: defaultPayloadConverter.toPayload(context) } };
}
