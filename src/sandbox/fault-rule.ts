import * as z from 'zod';
import { OPERATIONS } from './http.js';

const milliseconds = z.number().min(0);

/** Which requests a rule is for, and how often its fault is injected. */
const match = {
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
};

/**
 * `before`: the fault is injected before the write takes effect, so it never does (`delay`: it does after the delay).
 * `after`: the write has taken effect when the fault is injected.
 */
const effect = z.enum(['before', 'after']).optional();
const status = z.int().min(200).max(599).optional();

const faultRuleSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('reset'),
    ...match,
    effect,
    /** Reset before any read, after the headers, within the body, after the request (default), within the response. */
    at: z.enum(['connect', 'headers', 'body', 'request', 'response']).optional(),
  }),
  z.strictObject({ kind: z.literal('hang'), ...match, effect }),
  z.strictObject({ kind: z.literal('delay'), ...match, effect, delayMs: milliseconds }),
  z.strictObject({
    kind: z.literal('slow'),
    ...match,
    effect,
    chunkBytes: z.int().min(1).optional(),
    chunkDelayMs: milliseconds.optional(),
  }),
  z.strictObject({ kind: z.literal('stallBody'), ...match, effect }),
  z.strictObject({
    kind: z.literal('status'),
    ...match,
    effect,
    status: z.int().min(200).max(599),
    /** A text is sent as it is, anything else as JSON; default: the operation's error body. */
    body: z.unknown().optional(),
    headers: z.record(z.string(), z.string()).optional(),
    /** `Retry-After`: seconds, or any text. */
    retryAfter: z.union([z.number(), z.string()]).optional(),
    /** `Retry-After` as an HTTP date so long after the response. */
    retryAfterDateMs: z.number().optional(),
  }),
  z.strictObject({ kind: z.literal('truncated'), ...match, effect, status }),
  z.strictObject({ kind: z.literal('malformed'), ...match, effect, status }),
  z.strictObject({ kind: z.literal('empty'), ...match, effect, status }),
  z.strictObject({ kind: z.literal('html'), ...match, effect, status }),
  z.strictObject({
    kind: z.literal('redirect'),
    ...match,
    effect,
    status: z.union([z.literal(301), z.literal(302), z.literal(303), z.literal(307), z.literal(308)]).optional(),
    /** Default: an address of the sandbox that counts its visits (`redirectTargetVisits`). */
    location: z.string().optional(),
  }),
  z.strictObject({ kind: z.literal('noId'), ...match, effect, status }),
  z.strictObject({ kind: z.literal('oversized'), ...match, effect, status }),
  z.strictObject({
    kind: z.literal('closeAfter'),
    ...match,
    effect,
    /** How long after the response the idle connection is closed, unannounced; default 0. */
    delayMs: milliseconds.optional(),
  }),
]);

/** One fault to inject; `kind` says which, the rest for which requests. */
export type FaultRule = z.input<typeof faultRuleSchema>;
export type FaultKind = FaultRule['kind'];
export type FaultEffect = 'before' | 'after';

/** When a rule is evaluated: at the connection, at the headers, or with the whole request read. */
export type FaultMoment = 'connect' | 'head' | 'whole';

export function momentOf(rule: FaultRule): FaultMoment {
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
  const moment = momentOf(rule);
  if (moment !== 'whole' && effectOf(rule) === 'after') {
    throw new Error(`a reset at ${injectionPoint(rule)} comes before the request is read: its effect can't be "after"`);
  }
  if (moment !== 'whole' && rule.promptIncludes !== undefined) {
    throw new Error(`a reset at ${injectionPoint(rule)} can't be matched by prompt`);
  }
  if (moment === 'connect' && (rule.operation ?? rule.projectId ?? rule.jobId) !== undefined) {
    throw new Error('a reset at connect is matched by count, nth and probability alone');
  }
  return rule;
}

function injectionPoint(rule: FaultRule): string {
  return rule.kind === 'reset' ? (rule.at ?? 'request') : rule.kind;
}

/** Whether the peer gets a whole HTTP response, so that its status belongs into the request log. */
export function isWholeResponse({ kind }: FaultRule): boolean {
  return !['reset', 'hang', 'stallBody', 'truncated', 'oversized'].includes(kind);
}
