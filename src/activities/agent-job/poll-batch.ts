/** What a workflow asks a poll batch, and what it is told. Times and waits in milliseconds. */
import type { PollPlan } from '../../agent-job/poll-plan.js';
import type { JobRecord } from '../../contract.js';

export interface PollJobInput {
  projectId: string;
  jobId: string;
  plan: PollPlan;
  /** The record that the workflow knows; the poll loop ends when the upstream shows another. */
  known: JobRecord | null;
  lastChangeAt: number;
  /** The poll loop ends at this time; null where no clock runs. */
  deadlineAt: number | null;
  /** A terminal status read before this time is read again after it. */
  settledAt: number;
  /** Whether a terminal status that the workflow knows already ends the poll loop. */
  endsAtTerminal: boolean;
  /** Failed reads in a row before this batch. */
  failures: number;
  /** How many 404 came in a row before this batch, and since when; null where the last response was another. */
  notFound: { count: number; since: number } | null;
  /** How many polls the batch may make. */
  maxReads: number;
  afterReset: boolean;
}

export type Reading =
  | { kind: 'record'; job: JobRecord }
  | { kind: 'unchanged' }
  /** A terminal status, read too soon after a follow-up to count. */
  | { kind: 'settling'; job: JobRecord }
  /** The upstream answered 404, `count` times in a row. */
  | { kind: 'notFound'; count: number }
  | { kind: 'failed'; reason: string; retryAfterMs?: number; waitsFor?: 'rateLimit' | 'key' | 'upstream' };

export interface PollJobResult {
  reading: Reading;
  reads: number;
  failures: number;
  afterReset: boolean;
  /** Whether the last read began at the deadline, or later. */
  isAtDeadline: boolean;
  /** Heartbeats of the batch, where there were any; each is a billable action. */
  heartbeats?: number;
}
