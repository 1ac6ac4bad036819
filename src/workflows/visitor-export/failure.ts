import { ActivityFailure, ApplicationFailure, ChildWorkflowFailure } from '@temporalio/workflow';

/** The failure that an activity or a child told of; null where it ended in another way. */
export function failureOf(error: unknown): ApplicationFailure | null {
  const wrapped = error instanceof ActivityFailure || error instanceof ChildWorkflowFailure ? error.cause : error;
  return wrapped instanceof ApplicationFailure ? wrapped : null;
}

/** When the pace lets another request follow a failed export, in milliseconds; 0 where the failure does not say. */
export function nextRequestAfter(error: unknown): number {
  const [details] = (failureOf(error)?.details ?? []) as { nextRequestAt?: string }[];
  return details?.nextRequestAt === undefined ? 0 : Date.parse(details.nextRequestAt);
}
