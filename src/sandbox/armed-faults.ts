/** The faults that are armed, and which of them a request gets. */
import type { FaultEffect, FaultKind, FaultMoment, FaultRule } from './fault-rule.js';
import { effectOf, momentOf } from './fault-rule.js';
import { seededRandom } from './random.js';
import type { Operation } from './route.js';

/** What is known of a request when a fault is picked for it. */
export interface FaultFacts {
  operation: Operation;
  projectId: string;
  jobId: string | undefined;
  prompt: string | undefined;
}

/** A fault to inject now. */
export interface Fault {
  rule: FaultRule;
  effect: FaultEffect;
}

/** A rule as the control shows it. */
export interface FaultStatus {
  id: number;
  rule: FaultRule;
  matched: number;
  injected: number;
}

interface ArmedRule extends FaultStatus {
  moment: FaultMoment;
  effect: FaultEffect;
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
    const random = seededRandom(rule.seed ?? id);
    this.#rules.push({ id, rule, matched: 0, injected: 0, moment: momentOf(rule), effect: effectOf(rule), random });
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

  pick(moment: FaultMoment, facts?: FaultFacts): Fault | undefined {
    for (const armed of this.#rules) {
      if (armed.moment !== moment || !matches(armed.rule, facts) || !isDue(armed)) continue;
      armed.injected++;
      this.#injected.set(armed.rule.kind, (this.#injected.get(armed.rule.kind) ?? 0) + 1);
      return { rule: armed.rule, effect: armed.effect };
    }
    return undefined;
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
