import type { FaultEffect, FaultKind, FaultMoment, FaultRule } from './fault-rule.js';
import { effectOf, momentOf } from './fault-rule.js';
import { seededRandom } from './random.js';
import type { Operation } from './route.js';

/** What is known of a request when a fault may strike. */
export interface FaultFacts {
  operation: Operation;
  projectId: string;
  jobId: string | undefined;
  prompt: string | undefined;
}

/** A rule that strikes now. */
export interface Fault {
  rule: FaultRule;
  effect: FaultEffect;
}

/** A rule as the control shows it. */
export interface FaultStatus {
  id: number;
  rule: FaultRule;
  matched: number;
  struck: number;
}

interface ArmedRule extends FaultStatus {
  moment: FaultMoment;
  effect: FaultEffect;
  random: () => number;
}

/** The rules in the order they were added; the first that strikes wins. */
export class Faults {
  private rules: ArmedRule[] = [];
  private nextId = 1;
  private readonly struck = new Map<FaultKind, number>();

  /** Whether any rule looks at prompts. */
  get wantsPrompts(): boolean {
    return this.rules.some(({ rule }) => rule.promptIncludes !== undefined);
  }

  add(rule: FaultRule): number {
    const id = this.nextId++;
    const random = seededRandom(rule.seed ?? id);
    this.rules.push({ id, rule, matched: 0, struck: 0, moment: momentOf(rule), effect: effectOf(rule), random });
    return id;
  }

  clear(): void {
    this.rules = [];
  }

  list(): FaultStatus[] {
    return this.rules.map(({ id, rule, matched, struck }) => ({ id, rule, matched, struck }));
  }

  /** Strikes by kind, of rules since cleared too. */
  counts(): Record<string, number> {
    return Object.fromEntries(this.struck);
  }

  resetCounts(): void {
    this.struck.clear();
  }

  pick(moment: FaultMoment, facts?: FaultFacts): Fault | undefined {
    for (const armed of this.rules) {
      if (armed.moment !== moment || !matches(armed.rule, facts) || !strikes(armed)) continue;
      armed.struck++;
      this.struck.set(armed.rule.kind, (this.struck.get(armed.rule.kind) ?? 0) + 1);
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

function strikes(armed: ArmedRule): boolean {
  const { rule } = armed;
  armed.matched++;
  if (armed.matched < (rule.nth ?? 1)) return false;
  if (armed.struck >= (rule.count ?? (rule.probability === undefined ? 1 : Infinity))) return false;
  return rule.probability === undefined || armed.random() < rule.probability;
}
