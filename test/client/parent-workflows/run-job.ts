import { ApplicationFailure, executeChild, isCancellation } from '@temporalio/workflow';
import { agentJob, agentJobChildOptions, runAgentJob } from '../../../src/agent-job/child.js';
import type { AgentJobInput, AgentJobPlace, AgentJobResult } from '../../../src/agent-job/child.js';

export interface Ticket {
  job: AgentJobInput;
  place: AgentJobPlace;
}

export type TicketEnd = AgentJobResult | { type: string | null | undefined; message: string; details: unknown };

/** A service's workflow that has a job done for a ticket, and reports how it failed. */
export async function handleTicket({ job, place }: Ticket): Promise<TicketEnd> {
  try {
    return await runAgentJob(job, place);
  } catch (error) {
    if (isCancellation(error) || !(error instanceof ApplicationFailure)) throw error;
    const { type, message, details } = error;
    return { type, message, details };
  }
}

/** A child by its type. Without a catch: the failure is that of the parent. */
export function runOnly({ job, place }: Ticket): Promise<AgentJobResult> {
  return executeChild(agentJob, agentJobChildOptions(job, place));
}
