/** What the jobs that have not ended wait for, as each says itself. */
import type { JobState } from '../../src/contract.js';
import type { AgentJobs } from '../../src/starter.js';
import { tally } from './tally.js';

const ASK_LIMIT_MS = 30_000;

/** How many say what; a job whose worker does not answer in time says nothing. */
export async function whoWaits(jobs: AgentJobs, workflowIds: readonly string[]): Promise<Map<string, number>> {
  const asked = workflowIds.map(async (workflowId) => {
    try {
      return saidBy(await jobs.handle(workflowId).state({ signal: AbortSignal.timeout(ASK_LIMIT_MS) }));
    } catch {
      return 'no response';
    }
  });
  return tally(await Promise.all(asked));
}

function saidBy({ phase, waiting }: JobState): string {
  if (phase === 'done') return 'done';
  if (!waiting) return `${phase}: a write is under way`;
  const place = waiting.position === undefined ? '' : ', with its place';
  return `waits for ${waiting.for}${place}`;
}
