import { CHAOS_KINDS, type FaultRule } from '../../src/testing.js';
import { chaosRules } from '../../src/sandbox/chaos.js';

/** A job that a redirect refuses for good has nothing more to show; a few are enough. */
const REDIRECT_SHARE = 0.2;

/** Every kind of fault of the sandbox, on writes and reads alike, each with the same chance in per cent of the requests. */
export function everyFault(seed: number, percentOfEach: number): FaultRule[] {
  const kinds = CHAOS_KINDS.filter((kind) => kind !== 'redirect');
  const operations = ['create', 'message', 'get'] as const;
  const redirects = chaosRules({
    seed: seed + 1_000,
    percent: percentOfEach * REDIRECT_SHARE,
    kinds: ['redirect'],
    operations: ['create', 'message'],
  });
  return [...chaosRules({ seed, percent: percentOfEach, kinds, operations: [...operations] }), ...redirects];
}
