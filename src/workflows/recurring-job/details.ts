import { plainMarkdown } from '../../agent-job/markdown.js';
import type { RecurringJobRun, SkipReason } from '../../contract.js';

const SKIPPED: Record<SkipReason, string> = {
  earlierRun: 'the job of an earlier run was not over',
  queueWait: 'it waited as long as it may for the job of an earlier run',
  scheduleRemoved: 'the Schedule was removed before it started its job',
};

/** Markdown for the page of a run in the web UI. */
export function runDetails(run: RecurringJobRun): string {
  const lines = [
    `**Recurring job** ${plainMarkdown(run.name)} of ${plainMarkdown(run.projectId)}`,
    `**Scheduled** ${run.scheduledAt}`,
    `**Job** ${plainMarkdown(run.workflowId)}`,
    fateLine(run),
  ];
  return lines.join('\n\n');
}

function fateLine({ fate, outcome, reason }: RecurringJobRun): string {
  switch (fate) {
    case 'queued':
      return '**Waits** for the end of the job of an earlier run';
    case 'running':
      return '**Runs**: see the job';
    case 'exists':
      return '**Started no job**: a job of this key had been started before';
    case 'skipped':
      return `**Skipped**: ${reason === null ? '' : SKIPPED[reason]}`;
    case 'ended':
      return `**Ended**: ${plainMarkdown(outcome ?? '')}`;
  }
}

/** Markdown for the page of a lock in the web UI. */
export function lockDetails(job: string, waitingCount: number): string {
  return `**Held for the job** ${plainMarkdown(job)}\n\n**Runs that wait** ${waitingCount}`;
}
