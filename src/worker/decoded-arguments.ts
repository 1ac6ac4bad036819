/**
 * An interceptor that fails an activity whose argument this worker can't decode, so that another worker's attempt does
 * it. A worker without PAYLOAD_KEYS_FILE among workers with it would otherwise send requests without project and prompt.
 */
import { activityInfo, ApplicationFailure } from '@temporalio/activity';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { JOIN_JOB_ACTIVITY } from '../contract.js';
import { Undecodable } from '../contract/kinds.js';

/** Our own workflows give only what can be decoded. `joinAgentJob` has other callers, and refuses by itself. */
export const requireDecodedArguments: ActivityInterceptorsFactory = () => ({
  inbound: {
    execute(input, next) {
      const isOurs = activityInfo().activityType !== JOIN_JOB_ACTIVITY;
      if (!isOurs || !input.args.some((argument) => argument instanceof Undecodable)) return next(input);
      const text = 'this worker can not decode an argument: it may lack PAYLOAD_KEYS_FILE, so another attempt follows';
      throw ApplicationFailure.retryable(text, 'UndecodableArgument');
    },
  },
});
