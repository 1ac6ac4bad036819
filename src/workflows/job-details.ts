/** The current details of a job in the Temporal web UI, as Markdown. */
import { workflowInfo } from '@temporalio/workflow';
import { shownStatus, type FollowUpStatus } from '../contract.js';
import type { JobRun } from './job-run.js';

/** The web UI shows so many follow-ups; the query has them all. */
const MOST_LISTED = 20;

/** What a job is, how it stands, what its follow-ups came to, and what a person should decide. */
export function jobDetails(run: JobRun): string {
  const { data, phase } = run;
  return [
    `**${plain(data.title)}**`,
    '',
    `- phase: **${phase}**`,
    `- job: ${data.jobId === null ? 'not created yet' : plain(data.jobId)}${data.job ? `, upstream status **${plain(shownStatus(data.job.status))}**` : ''}`,
    `- pull request: ${data.job?.prLink ? plain(data.job.prLink) : 'none'}`,
    `- last change: ${new Date(data.lastChangeAt).toISOString()}`,
    ...(data.trouble === null ? [] : [`- trouble: ${plain(data.trouble)}`]),
    ...attention(run),
    ...followUpLines(run.followUps.statuses()),
  ].join('\n');
}

function attention({ data, spec }: JobRun): string[] {
  const { unknown } = data;
  if (!unknown) return [];
  const what = unknown.kind === 'create' ? 'the create' : `follow-up ${plain(unknown.followUpId ?? '')}`;
  const check =
    unknown.kind === 'create'
      ? `look in project ${plain(spec.projectId)} upstream for a job with this prompt, created about then`
      : `look at job ${plain(data.jobId ?? '')} upstream for this message`;
  const choices = unknown.kind === 'create' ? '`adopt` (with its --job-id)' : '`delivered`';
  return [
    '',
    `**Needs attention** since ${unknown.since}: nobody knows whether ${what} arrived (${plain(unknown.reason)}).`,
    `Look from ${unknown.lookAfter} on: before, it may still be on its way.`,
    `To check: ${check}. It is there: ${choices}; it is not: \`retry\`; give up: \`abandon\`. For example:`,
    '',
    '```',
    `agent-jobs resolve ${shellWord(workflowInfo().workflowId)} retry \\`,
    `  --since ${unknown.since}`,
    '```',
  ];
}

function followUpLines(followUps: FollowUpStatus[]): string[] {
  if (followUps.length === 0) return [];
  const shown = followUps.slice(-MOST_LISTED);
  const hidden = followUps.length - shown.length;
  return [
    '',
    `Follow-ups${hidden > 0 ? ` (the last ${MOST_LISTED} of ${followUps.length})` : ''}:`,
    '',
    ...shown.map(({ id, state, error }) => `- ${plain(id)}: ${state}${error ? ` (${plain(error)})` : ''}`),
  ];
}

/** Text from outside must not act as Markdown. */
function plain(text: string): string {
  return text.replace(/\p{Cc}+/gu, ' ').replace(/[\\`*_[\]<>|]/g, '\\$&');
}

function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
