import { ActivityFailure, ApplicationFailure, ChildWorkflowFailure } from '@temporalio/workflow';

/** The failure that an activity or a child told of; null where it ended in another way. */
export function failureOf(error: unknown): ApplicationFailure | null {
  const wrapped = error instanceof ActivityFailure || error instanceof ChildWorkflowFailure ? error.cause : error;
  return wrapped instanceof ApplicationFailure ? wrapped : null;
}
