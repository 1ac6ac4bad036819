import { ApplicationFailure, executeChild, isCancellation } from '@temporalio/workflow';
import {
  agentJob,
  agentJobChildOptions,
  runAgentJob,
  type AgentJobInput,
  type AgentJobPlace,
  type AgentJobResult,
} from '../../../src/agent-job/child.js';

export interface Ticket {
  job: AgentJobInput;
  place: AgentJobPlace;
}

export type TicketEnd = AgentJobResult | { type: string | null | undefined; message: string; details: unknown };

/** A service's workflow that has a job done for a ticket, and tells how it failed. */
export async function handleTicket({ job, place }: Ticket): Promise<TicketEnd> {
  try {
    return await runAgentJob(job, place);
  } catch (error) {
    if (isCancellation(error) || !(error instanceof ApplicationFailure)) throw error;
    const { type, message, details } = error;
    return { type, message, details };
  }
}

/** The same ticket twice at the same time. */
export function handleTwice(ticket: Ticket): Promise<TicketEnd[]> {
  return Promise.all([handleTicket(ticket), handleTicket(ticket)]);
}

/** Without a catch: what becomes of the parent itself. */
export function runOnly({ job, place }: Ticket): Promise<AgentJobResult> {
  return runAgentJob(job, place);
}

/** A child by its type. */
export function runTyped({ job, place }: Ticket): Promise<AgentJobResult> {
  return executeChild(agentJob, agentJobChildOptions(job, place));
}
