/** What each caller is going to do, drawn from the seed before anything runs. */
import type { AgentJobOptions, Priority, UnknownOutcomePolicy } from '../../src/contract.js';
import { Draw } from './draw.js';
import { LINK_IS_LATE, REFUSED_AT_TIMES, STANDS_LATE_LINKS } from './faults.js';
import { PROJECTS_OF_SHORT_BUDGET } from './short-budget.js';

export interface FollowUpPlan {
  id: string;
  prompt: string;
  by: 'signal' | 'update';
  /** Pause before it is sent. */
  waitMs: number;
  /** Sent so often at the same time, under the same id. */
  copies: number;
  /** Sent after the job has ended. */
  isAfterEnd: boolean;
}

export interface JobPlan {
  key: string;
  projectId: string;
  prompt: string;
  policy: UnknownOutcomePolicy;
  options: AgentJobOptions;
  /** Started so often at the same time, with the same key. */
  starts: number;
  followUps: FollowUpPlan[];
  cancelAfterMs: number | null;
  /** Another caller says the same after an end, and fails before a request of this name leaves. */
  failsAfterEnd: { before: string; isKilled: boolean } | null;
  /** Ends before its job may have, or before its turn has come: `timedOut` is an honest end. */
  isShort: boolean;
  /** The upstream shows its pull request some time after its end. */
  isLinkLate: boolean;
}

const PROJECTS = 12;

interface PlanOptions {
  seed: number;
  /** Sets this run's jobs apart from those of others on the same server. */
  runName: string;
  /** The upstream takes few writes an hour: few projects, priorities, and some jobs that must start in time. */
  isBudgetShort: boolean;
}

export function planJob({ seed, runName, isBudgetShort }: PlanOptions, number: number): JobPlan {
  const draw = new Draw(seed, `job ${number}`);
  const key = `job-${number}`;
  const isRefused = new Draw(seed, `refused ${number}`).chance(0.1);
  const isLinkLate = new Draw(seed, `link ${number}`).chance(0.2);
  const marks = [...(isRefused ? [REFUSED_AT_TIMES] : []), ...(isLinkLate ? [LINK_IS_LATE] : [])];
  const place = {
    key,
    projectId: `${runName}-${number % (isBudgetShort ? PROJECTS_OF_SHORT_BUDGET : PROJECTS)}`,
    prompt: [`[${runName} ${key}] Mend the build`, ...marks].join(' '),
  };
  const policy = draw.pick<UnknownOutcomePolicy>(['ask', 'ask', 'ask', 'ask', 'ask', 'ask', 'fail', 'retry']);
  const isShort = draw.chance(0.04);
  const settle = draw.pick(['0 seconds', '500 milliseconds', '2 seconds']);
  const turns = isBudgetShort ? planTurns(seed, number) : null;
  return {
    ...place,
    policy,
    options: {
      polling: { min: '1 second', max: '3 seconds', ratio: 0.1 },
      settle: isLinkLate ? STANDS_LATE_LINKS : settle,
      onUnknownOutcome: policy,
      ...(draw.chance(0.05) ? { decideWithin: '4 seconds' } : {}),
      ...(isShort ? { deadline: '6 seconds' } : {}),
      ...turns,
    },
    starts: draw.chance(0.2) ? 2 : 1,
    followUps: planFollowUps(draw, key),
    cancelAfterMs: draw.chance(0.03) ? draw.between(0, 6_000) : null,
    failsAfterEnd: planFailure(seed, number),
    isShort: isShort || turns?.startWithin !== undefined,
    isLinkLate,
  };
}

/** Which job goes first, and which gives up if its turn does not come: drawn apart, so that all else is the same. */
function planTurns(seed: number, number: number): Pick<AgentJobOptions, 'priority' | 'startWithin'> {
  const draw = new Draw(seed, `turns ${number}`);
  const priority = draw.pick<Priority>([1, 2, 3, 3, 3, 3, 4, 5]);
  return draw.chance(0.05) ? { priority, startWithin: '20 seconds' } : { priority };
}

/** Between the read of the ended run and the start that goes on from it: drawn apart, so that all else is the same. */
function planFailure(seed: number, number: number): JobPlan['failsAfterEnd'] {
  const draw = new Draw(seed, `caller ${number}`);
  if (draw.chance(0.4)) return null;
  const before = draw.pick(['ListWorkflowExecutions', 'GetWorkflowExecutionHistory', 'the start']);
  return { before, isKilled: draw.chance(0.5) };
}

function planFollowUps(draw: Draw, key: string): FollowUpPlan[] {
  const count = draw.pick([0, 1, 1, 2, 3]);
  return Array.from({ length: count }, (_, index) => ({
    id: `${key}-f${index + 1}`,
    prompt: `[${key}-f${index + 1}] And the tests`,
    by: draw.pick(['signal', 'update'] as const),
    waitMs: draw.between(0, 2_500),
    copies: draw.pick([1, 1, 1, 2, 3]),
    isAfterEnd: index === count - 1 && draw.chance(0.25),
  }));
}
