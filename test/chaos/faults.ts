/** The faults of a run of the crash suite. Responses stay truthful: a 429 has no effect, a 2xx always has. */
import type { FaultRule, ScriptRule } from '../../src/testing.js';

/** A few redirects are enough: each refuses a job for good. */
const REDIRECT_SHARE = 0.2;
/** Creates with this in their prompts are refused now and then, so that their keys are started again. */
export const REFUSED_AT_TIMES = '(refused at times)';
/** Jobs with this in their prompts say `completed` before their pull request, and take a message up late. */
export const LINK_IS_LATE = '(its link is late)';
/** Their ends must stand for longer than a life after a message lasts: no poll may have seen the job active. */
export const STANDS_LATE_LINKS = '5 seconds';

/** Jobs are active for so long. */
export const ACTIVE_MS = 1_500;
const UNTIL_LINKED = [
  { status: 'active' },
  { afterMs: ACTIVE_MS, status: 'completed' },
  { afterMs: 1_500, status: 'completed', prLink: true },
] as const;
/** The life of such a job; after a message, too. */
export const LATE_LINKS: ScriptRule = {
  promptIncludes: LINK_IS_LATE,
  script: { steps: [...UNTIL_LINKED], messageLagMs: 1_000, followUp: [...UNTIL_LINKED] },
};

const both = (rule: FaultRule): FaultRule[] => [
  { ...rule, effect: 'before' },
  { ...rule, effect: 'after' },
];

/** Every kind with its variants, for requests that answer with this status. */
function kinds(accepted: number): FaultRule[][] {
  const spoilt = (body: unknown, headers = {}): FaultRule[] => [
    { kind: 'status', status: accepted, effect: 'after', body, headers },
    { kind: 'status', status: 502, effect: 'before', body, headers },
  ];
  return [
    [
      { kind: 'reset', at: 'headers' },
      { kind: 'reset', at: 'body' },
      ...both({ kind: 'reset', at: 'request' }),
      ...both({ kind: 'reset', at: 'response' }),
    ],
    both({ kind: 'delay', delayMs: 50 }),
    [...both({ kind: 'status', status: 500 }), ...both({ kind: 'status', status: 503 })],
    [
      { kind: 'status', status: 429 },
      { kind: 'status', status: 429, retryAfter: 1 },
    ],
    both({ kind: 'truncated' }),
    spoilt('{"id":,,'),
    spoilt(''),
    spoilt('<!doctype html><title>Gateway</title>', { 'content-type': 'text/html' }),
    [{ kind: 'status', status: accepted, effect: 'after', body: { status: 'active' } }],
    both({ kind: 'hang' }),
    both({ kind: 'hang', at: 'response' }),
    [{ kind: 'status', status: accepted, effect: 'after', body: 'x'.repeat(2 ** 21) }],
  ];
}

const STATUS = { create: 201, message: 200, get: 200 } as const;

/** Every kind of fault, on writes and reads alike, each with the same chance in per cent of the requests. */
export function everyFault(seed: number, percentOfEach: number): FaultRule[] {
  const chance = percentOfEach / 100;
  const rules: FaultRule[] = [{ kind: 'reset', at: 'connect', probability: chance }];
  for (const operation of ['create', 'message', 'get'] as const) {
    for (const variants of kinds(STATUS[operation])) {
      rules.push(...variants.map((rule) => ({ ...rule, operation, probability: chance / variants.length })));
    }
    if (operation === 'get') continue;
    const headers = { location: 'http://127.0.0.1:9/' };
    rules.push({ kind: 'status', status: 307, headers, operation, probability: chance * REDIRECT_SHARE });
  }
  const create = { operation: 'create', promptIncludes: REFUSED_AT_TIMES } as const;
  rules.push({ kind: 'status', status: 422, ...create, effect: 'before', probability: 0.6 });
  return rules.map((rule, number) => ({ ...rule, seed: seed + number }));
}
