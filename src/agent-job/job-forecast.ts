/**
 * What a job will cost on Temporal: the sum that docs/cost.md explains, part by part. Pure. Reads follow the plan
 * without jitter; each job ends by one change of its status, and no write of it has to wait.
 */
import type { PollPlan } from './poll-plan.js';
import { pollingCost, type ReadMode } from './polling-cost.js';

/** A typical job. */
export interface TypicalJob {
  /** From its create to its end upstream, in milliseconds. */
  lengthMs: number;
  plan: PollPlan;
  /** Follow-ups, spread evenly; each starts the plan anew. */
  followUps: number;
  mode: ReadMode;
}

/** One part of the sum: how often it comes, and the actions of each time. */
interface ForecastPart {
  part: string;
  count: number;
  actionsEach: number;
}

export interface JobForecast {
  reads: number;
  parts: ForecastPart[];
  billableActions: number;
  historyEvents: number;
  /** Without prompts, each of which is kept twice. */
  historyBytes: number;
}

/** What history holds of a job of one poll, a further batch and a follow-up, as measured. */
const ONE_POLL = { events: 21, bytes: 5_500 };
const FURTHER_BATCH = { events: 11, bytes: 2_200 };
const FOLLOW_UP = { events: 18, bytes: 3_700 };
/** After so many events the Temporal server suggests to continue as new. */
const EVENTS_OF_A_RUN = 4_096;

/** What one job will cost. */
export function forecastJob({ lengthMs, plan, followUps, mode }: TypicalJob): JobForecast {
  const stretches = followUps + 1;
  const stretch = { sinceChangeMs: 0, durationMs: lengthMs / stretches, mode };
  const cut = pollingCost(plan, { ...stretch, end: 'cut' });
  const last = pollingCost(plan, { ...stretch, end: 'seen' });
  const of = (figure: (cost: typeof last) => number) => followUps * figure(cut) + figure(last);
  const batches = of((cost) => cost.batches);
  const further = batches - stretches;
  const historyEvents = ONE_POLL.events + FOLLOW_UP.events * followUps + FURTHER_BATCH.events * further;
  const parts: ForecastPart[] = [
    { part: 'start', count: 1 + Math.floor(historyEvents / EVENTS_OF_A_RUN), actionsEach: 1 },
    { part: 'create: the activity and its fence', count: 1, actionsEach: 2 },
    { part: 'changes of search attributes and memo', count: 4, actionsEach: 1 },
    { part: 'follow-ups: signal, message, fence, two changes of the phase', count: followUps, actionsEach: 5 },
    { part: 'batches of polls', count: batches, actionsEach: 1 },
    { part: 'timers between two batches', count: further, actionsEach: 1 },
    { part: 'further attempts to poll', count: of((cost) => cost.retries), actionsEach: 1 },
    { part: 'renewals of the lease of a batch', count: of((cost) => cost.heartbeats), actionsEach: 1 },
  ];
  return {
    reads: of((cost) => cost.reads),
    parts,
    billableActions: parts.reduce((sum, { count, actionsEach }) => sum + count * actionsEach, 0),
    historyEvents,
    historyBytes: ONE_POLL.bytes + FOLLOW_UP.bytes * followUps + FURTHER_BATCH.bytes * further,
  };
}
