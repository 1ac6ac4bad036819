/**
 * An interceptor that fails an activity whose argument this worker can't decode, so that another worker's attempt does
 * the work. Otherwise a worker without PAYLOAD_KEYS_FILE among workers with it would send requests without project and
 * prompt.
 */
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { JOIN_JOB_ACTIVITY } from '../contract.js';
import { Undecodable } from '../contract/kinds.js';

/** Our own workflows give only what can be decoded. `joinAgentJob` has other callers, and refuses by itself. */
export const requireDecodedArguments: ActivityInterceptorsFactory = ({ info }) => ({
  inbound: {
    execute(input, next) {
      const isOurs = info.activityType !== JOIN_JOB_ACTIVITY;
      if (!isOurs || !input.args.some((argument) => argument instanceof Undecodable)) return next(input);
      throw new Error('this worker can not decode an argument: it may lack PAYLOAD_KEYS_FILE');
    },
  },
});
