import { CHAOS_KINDS, type FaultRule } from '../../src/testing.js';
import { chaosRules } from '../../src/sandbox/armed-faults.js';

/** A few redirects are enough: each refuses a job for good. */
const REDIRECT_SHARE = 0.2;
/** Creates with this in their prompts are refused now and then, so that their keys are started again. */
export const REFUSED_AT_TIMES = '(refused at times)';

/**
 * Every kind of fault of the sandbox, on writes and reads alike, each with the same chance in per cent of the requests.
 */
export function everyFault(seed: number, percentOfEach: number): FaultRule[] {
  const kinds = CHAOS_KINDS.filter((kind) => kind !== 'redirect');
  const operations = ['create', 'message', 'get'] as const;
  const redirects = chaosRules({
    seed: seed + 1_000,
    percent: percentOfEach * REDIRECT_SHARE,
    kinds: ['redirect'],
    operations: ['create', 'message'],
  });
  const create = { operation: 'create', promptIncludes: REFUSED_AT_TIMES } as const;
  const refusals: FaultRule = { kind: 'status', status: 422, ...create, effect: 'before', probability: 0.6 };
  return [...chaosRules({ seed, percent: percentOfEach, kinds, operations: [...operations] }), ...redirects, refusals];
}
