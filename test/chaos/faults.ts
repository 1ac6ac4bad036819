import { CHAOS_KINDS, type FaultRule } from '../../src/testing.js';
import { chaosRules, effectOf } from '../../src/sandbox/armed-faults.js';

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

const MOMENTS = ['connect', 'headers', 'body', 'wait', 'answer'] as const;

/**
 * Faults for this share of the writes: a fifth of them at each moment of a write, evenly over the kinds of that moment.
 */
export function faultsSpreadOverMoments(seed: number, percentOfWrites: number): FaultRule[] {
  const operations = ['create', 'message'] as const;
  const kinds = CHAOS_KINDS.filter((kind) => kind !== 'connect');
  const rules = chaosRules({ seed, percent: 1, kinds, operations: [...operations] });
  const all = [...rules, ...chaosRules({ seed: seed + 1_000, percent: 1, kinds: ['connect'] })];
  return MOMENTS.flatMap((moment) => {
    // A corrupt response belongs to an accepted write; without effect it would be one more 5xx.
    const here = all.filter((rule) => momentOf(rule) === moment && (moment !== 'answer' || effectOf(rule) === 'after'));
    const variants = here.length / (moment === 'connect' ? 1 : operations.length);
    const probability = percentOfWrites / 100 / MOMENTS.length / variants;
    return here.map((rule) => ({ ...rule, probability }));
  });
}

const WHILE_WAITING = ['hang', 'status', 'delay', 'redirect'];

function momentOf(rule: FaultRule): (typeof MOMENTS)[number] {
  if (rule.kind === 'reset' && (rule.at === 'connect' || rule.at === 'headers' || rule.at === 'body')) return rule.at;
  const isWait = WHILE_WAITING.includes(rule.kind) || (rule.kind === 'reset' && rule.at === 'request');
  return isWait ? 'wait' : 'answer';
}
