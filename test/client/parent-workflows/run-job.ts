import { ApplicationFailure, executeChild, isCancellation, startChild } from '@temporalio/workflow';
import { agentJob, agentJobChildOptions, followUpSignal, runAgentJob } from '../../../src/agent-job/child.js';
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

/** What a test cannot wait for. */
const QUICK = { polling: { min: 1_000, max: 1_000 }, settle: 0 };

/** A follow-up to a job that has ended: a new run with a result of its own. */
async function followUp(ended: AgentJobResult, place: AgentJobPlace): Promise<AgentJobResult> {
  const { projectId, jobId, usedFollowUpIds, promptHashes } = ended;
  const input = { projectId, jobId: jobId!, usedFollowUpIds, promptHashes, ...QUICK };
  const child = await startChild(agentJob, agentJobChildOptions(input, place));
  await child.signal(followUpSignal, { prompt: 'Add a test, too', id: 'test' });
  return child.result();
}

/** A ticket whose job gets a follow-up once it has ended: both results. */
export async function reviewTicket({ job, place }: Ticket): Promise<AgentJobResult[]> {
  const ended = await runAgentJob(job, place);
  return [ended, await followUp(ended, { ...place, key: `${place.key} review` })];
}
