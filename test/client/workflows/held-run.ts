/**
 * A workflow interceptor for tests: a run of a recurring job stands still before it tries the lock once more, and when
 * it has just taken the lock, until the signal `goOn`. The query `heldAt` tells where.
 */
import {
  condition,
  defineQuery,
  defineSignal,
  setHandler,
  workflowInfo,
  type WorkflowInterceptorsFactory,
} from '@temporalio/workflow';

/** `CLOSING_MS`: no other timer of a run is so short. */
const CLOSING_MS = 1_000;

export const interceptors: WorkflowInterceptorsFactory = () => {
  if (workflowInfo().workflowType !== 'recurringJob') return {};
  let isReleased = false;
  let at: 'betweenLocks' | 'withLock' | null = null;
  const hold = async (place: 'betweenLocks' | 'withLock') => {
    at = place;
    await condition(() => isReleased);
    at = null;
  };
  const setHandlers = () => {
    setHandler(defineSignal('goOn'), () => void (isReleased = true));
    setHandler(defineQuery('heldAt'), () => at);
  };
  return {
    inbound: [
      {
        execute(input, next) {
          setHandlers();
          return next(input);
        },
      },
    ],
    outbound: [
      {
        startTimer: (input, next) => (input.durationMs === CLOSING_MS ? hold('betweenLocks') : next(input)),
        async startChildWorkflowExecution(input, next) {
          const [started, result] = await next(input);
          if (input.workflowType !== 'recurringJobLock') return [started, result];
          const held = started.then(async (runId) => {
            await hold('withLock');
            return runId;
          });
          return [held, result];
        },
      },
    ],
  };
};
