import * as z from 'zod';
import { type Operation, type OperationRoute, OPERATIONS } from './http.js';
import { seededRandom } from './random.js';

const milliseconds = z.number().min(0);
const status = z.int().min(200).max(599);

/** Which requests a rule is for, and how often and when its fault is injected. */
const common = {
  operation: z.enum(OPERATIONS).optional(),
  projectId: z.string().optional(),
  jobId: z.string().optional(),
  promptIncludes: z.string().optional(),
  /** Applies from the nth matching request on, counted from 1 since the rule was added; default 1. */
  nth: z.int().min(1).optional(),
  /** 0 to 1, drawn with `seed` for each matching request. */
  probability: z.number().min(0).max(1).optional(),
  seed: z.int().optional(),
  /** How many times the fault is injected; default 1, without end where there is a probability. */
  count: z.int().min(1).optional(),
  /**
   * `before`: the fault is injected before the write takes effect, so it never does (`delay`: it does after the delay).
   * `after`: the write has taken effect when the fault is injected.
   */
  effect: z.enum(['before', 'after']).optional(),
};

const faultRuleSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('reset'),
    ...common,
    /** Reset before any read, after the headers, within the body, after the request (default), within the response. */
    at: z.enum(['connect', 'headers', 'body', 'request', 'response']).optional(),
  }),
  z.strictObject({ kind: z.enum(['hang', 'stallBody']), ...common }),
  z.strictObject({ kind: z.literal('delay'), ...common, delayMs: milliseconds }),
  z.strictObject({
    kind: z.literal('slow'),
    ...common,
    chunkBytes: z.int().min(1).optional(),
    chunkDelayMs: milliseconds.optional(),
  }),
  z.strictObject({
    kind: z.literal('status'),
    ...common,
    status,
    /** A text is sent as it is, anything else as JSON; default: the operation's error body. */
    body: z.unknown().optional(),
    headers: z.record(z.string(), z.string()).optional(),
    /** `Retry-After`: seconds, or any text. */
    retryAfter: z.union([z.number(), z.string()]).optional(),
    /** `Retry-After` as an HTTP date so long after the response. */
    retryAfterDateMs: z.number().optional(),
  }),
  z.strictObject({
    kind: z.enum(['truncated', 'malformed', 'empty', 'html', 'noId', 'oversized']),
    ...common,
    status: status.optional(),
  }),
  z.strictObject({
    kind: z.literal('redirect'),
    ...common,
    status: z.literal([301, 302, 303, 307, 308]).optional(),
    /** Default: an address of the sandbox that counts its visits (`redirectTargetVisits`). */
    location: z.string().optional(),
  }),
  z.strictObject({
    kind: z.literal('closeAfter'),
    ...common,
    /** How long after the response the idle connection is closed, unannounced; default 0. */
    delayMs: milliseconds.optional(),
  }),
]);

/** One fault to inject; `kind` says which, the rest for which requests. */
export type FaultRule = z.input<typeof faultRuleSchema>;
export type FaultKind = FaultRule['kind'];
export type FaultEffect = 'before' | 'after';

/** When a rule is evaluated: at the connection, at the headers, or with the whole request read. */
type FaultMoment = 'connect' | 'head' | 'whole';

function momentOf(rule: FaultRule): FaultMoment {
  if (rule.kind !== 'reset') return 'whole';
  if (rule.at === 'connect') return 'connect';
  return rule.at === 'headers' || rule.at === 'body' ? 'head' : 'whole';
}

const INJECTED_BEFORE: ReadonlySet<FaultKind> = new Set(['hang', 'delay', 'status', 'redirect']);

/** The rule's own effect; by default faults that corrupt a response come after it, those that replace it before. */
export function effectOf(rule: FaultRule): FaultEffect {
  if (rule.effect) return rule.effect;
  const replaces = INJECTED_BEFORE.has(rule.kind) || (rule.kind === 'reset' && rule.at !== 'response');
  return replaces ? 'before' : 'after';
}

/** Parses a rule and throws for a combination that could never apply. */
export function parseFaultRule(input: unknown): FaultRule {
  const rule = faultRuleSchema.parse(input);
  if (rule.kind !== 'reset' || momentOf(rule) === 'whole') return rule;
  if (effectOf(rule) === 'after') {
    throw new Error(`a reset at ${rule.at} comes before the request is read: its effect can't be "after"`);
  }
  if (rule.promptIncludes !== undefined) throw new Error(`a reset at ${rule.at} can't be matched by prompt`);
  if (rule.at === 'connect' && (rule.operation ?? rule.projectId ?? rule.jobId) !== undefined) {
    throw new Error('a reset at connect is matched by count, nth and probability alone');
  }
  return rule;
}

/** Whether the peer gets a whole HTTP response, so that its status belongs into the request log. */
export function isWholeResponse({ kind }: FaultRule): boolean {
  return !['reset', 'hang', 'stallBody', 'truncated', 'oversized'].includes(kind);
}

// The faults that are armed, and which of them a request gets.

/** What is known of a request when a fault is picked for it. */
export interface FaultFacts extends Pick<OperationRoute, 'operation' | 'projectId' | 'jobId'> {
  prompt: string | undefined;
}

/** A rule as the control shows it. */
export interface FaultStatus {
  id: number;
  rule: FaultRule;
  matched: number;
  injected: number;
}

interface ArmedRule extends FaultStatus {
  random: () => number;
}

/** The rules in the order they were added; the first that applies wins. */
export class Faults {
  #rules: ArmedRule[] = [];
  #nextId = 1;
  readonly #injected = new Map<FaultKind, number>();

  /** Whether any rule matches by prompt. */
  get wantsPrompts(): boolean {
    return this.#rules.some(({ rule }) => rule.promptIncludes !== undefined);
  }

  add(rule: FaultRule): number {
    const id = this.#nextId++;
    this.#rules.push({ id, rule, matched: 0, injected: 0, random: seededRandom(rule.seed ?? id) });
    return id;
  }

  clear(): void {
    this.#rules = [];
  }

  list(): FaultStatus[] {
    return this.#rules.map(({ id, rule, matched, injected }) => ({ id, rule, matched, injected }));
  }

  /** Injected faults by kind, those of cleared rules included. */
  counts(): Record<string, number> {
    return Object.fromEntries(this.#injected);
  }

  resetCounts(): void {
    this.#injected.clear();
  }

  /** The rule whose fault is to be injected now. */
  pick(moment: FaultMoment, facts?: FaultFacts): FaultRule | undefined {
    const armed = this.#rules.find((one) => momentOf(one.rule) === moment && matches(one.rule, facts) && isDue(one));
    if (!armed) return undefined;
    armed.injected++;
    this.#injected.set(armed.rule.kind, (this.#injected.get(armed.rule.kind) ?? 0) + 1);
    return armed.rule;
  }
}

function matches(rule: FaultRule, facts: FaultFacts | undefined): boolean {
  return (
    (rule.operation === undefined || rule.operation === facts?.operation) &&
    (rule.projectId === undefined || rule.projectId === facts?.projectId) &&
    (rule.jobId === undefined || rule.jobId === facts?.jobId) &&
    (rule.promptIncludes === undefined || facts?.prompt?.includes(rule.promptIncludes) === true)
  );
}

function isDue(armed: ArmedRule): boolean {
  const { rule } = armed;
  armed.matched++;
  if (armed.matched < (rule.nth ?? 1)) return false;
  if (armed.injected >= (rule.count ?? (rule.probability === undefined ? 1 : Infinity))) return false;
  return rule.probability === undefined || armed.random() < rule.probability;
}

export const chaosSchema = z.strictObject({
  seed: z.int(),
  /** Chance of each kind of fault, in per cent of the requests; the variants of a kind share it. */
  percent: z.number().min(0).max(100),
  /** Default: all. */
  operations: z.array(z.enum(OPERATIONS)).optional(),
  /**
   * Keys of `CHAOS_KINDS`; default: all but `hang`, `stallBody` and `oversized`, which cost a caller its whole time
   * limit, and `redirect`, which refuses writes for good.
   */
  kinds: z.array(z.string()).optional(),
  /** Delay of `delay` faults; default 50. */
  delayMs: z.number().min(0).optional(),
});

/** Faults of many kinds at random, the same for the same seed and order of requests. */
export type Chaos = z.input<typeof chaosSchema>;

/**
 * Every kind with its variants. Responses stay truthful: a rejection (3xx, 429) comes only without effect, an
 * acceptance (2xx) only with it.
 */
function variants(delayMs: number): Record<string, FaultRule[]> {
  const both = (rule: FaultRule): FaultRule[] => [
    { ...rule, effect: 'before' },
    { ...rule, effect: 'after' },
  ];
  return {
    reset: [
      { kind: 'reset', at: 'headers' },
      { kind: 'reset', at: 'body' },
      ...both({ kind: 'reset', at: 'request' }),
      ...both({ kind: 'reset', at: 'response' }),
    ],
    connect: [{ kind: 'reset', at: 'connect' }],
    hang: both({ kind: 'hang' }),
    delay: both({ kind: 'delay', delayMs }),
    slow: [{ kind: 'slow', chunkBytes: 32, chunkDelayMs: 1 }],
    stallBody: both({ kind: 'stallBody' }),
    status: [...both({ kind: 'status', status: 500 }), ...both({ kind: 'status', status: 503 })],
    rateLimit: [
      { kind: 'status', status: 429 },
      { kind: 'status', status: 429, retryAfter: 1 },
    ],
    truncated: both({ kind: 'truncated' }),
    malformed: both({ kind: 'malformed' }),
    empty: both({ kind: 'empty' }),
    html: both({ kind: 'html' }),
    redirect: [{ kind: 'redirect' }],
    noId: [{ kind: 'noId' }],
    oversized: [{ kind: 'oversized' }],
    closeAfter: [{ kind: 'closeAfter' }],
  };
}

/** Every kind of fault that chaos can inject. */
export const CHAOS_KINDS: readonly string[] = Object.keys(variants(0));

const LEFT_OUT = new Set(['hang', 'stallBody', 'oversized', 'redirect']);

/** The fault rules of these random faults; throws for an unknown kind. */
export function chaosRules(chaos: Chaos): FaultRule[] {
  const all = variants(chaos.delayMs ?? 50);
  const kinds = chaos.kinds ?? CHAOS_KINDS.filter((kind) => !LEFT_OUT.has(kind));
  const operations: (Operation | undefined)[] = chaos.operations ?? [undefined];
  let seed = chaos.seed;
  return kinds.flatMap((kind) => {
    const rules = all[kind];
    if (!rules) throw new Error(`no chaos of kind "${kind}"; there are ${CHAOS_KINDS.join(', ')}`);
    const probability = chaos.percent / 100 / rules.length;
    return rules.flatMap((rule) =>
      (kind === 'connect' ? [undefined] : operations).map((operation) => ({
        ...rule,
        probability,
        seed: seed++,
        ...(operation && { operation }),
      })),
    );
  });
}
