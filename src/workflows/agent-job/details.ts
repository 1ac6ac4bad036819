/** The current details of a job in the Temporal web UI, as Markdown. */
import { workflowInfo } from '@temporalio/workflow';
import { shownStatus, type Decision, type FollowUpStatus, type Waiting } from '../../contract.js';
import { codeBlock, linkMarkdown, plainMarkdown } from '../../agent-job/markdown.js';
import { shellWord, waitRemedy, waitTimes } from '../../agent-job/waiting-text.js';
import type { JobRun } from './job-run.js';
import { waitingNow } from './job-state.js';
import { inDoubtOf, interruptionOf, mayHaveArrived } from './write.js';

/** The web UI shows so many follow-ups; the query has them all. */
const MAX_LISTED = 20;
/** Of decisions, each with its note. */
const MAX_DECISIONS = 5;

/** What a job is, how it stands, what its follow-ups came to, and what a person should decide. */
export function currentDetails(run: JobRun): string {
  const { phase, polls, write } = run;
  const { job, lastError } = polls.known;
  const status = job ? `, upstream status **${plainMarkdown(shownStatus(job.status))}**` : '';
  return [
    `**${plainMarkdown(run.title)}**`,
    '',
    `- phase: **${phase}**`,
    `- job: ${jobText(run)}${status}`,
    `- pull request: ${job?.prLink ? linkMarkdown(job.prLink) : 'none'}`,
    `- last change: ${new Date(polls.known.lastChangeAt).toISOString()}`,
    ...waitingLines(waitingNow(run), run.spec.projectId),
    ...(lastError === null || (write && interruptionOf(write)) ? [] : [`- last error: ${plainMarkdown(lastError)}`]),
    ...attention(run),
    ...decisionLines(run.decisions.list()),
    ...followUpLines(run.followUps.statuses()),
    ...conflictLines(run.followUps.conflicts),
  ].join('\n');
}

/** A create that may have arrived may have made a job. */
function jobText({ jobId, phase, write }: JobRun): string {
  if (jobId !== null) return plainMarkdown(jobId);
  if (phase === 'done') return 'none known';
  return write && (inDoubtOf(write) || mayHaveArrived(write)) ? 'not known' : 'not created yet';
}

/** What everybody waits for most of the time, and what is told below at length, needs no line. */
function waitingLines(waiting: Waiting | null, projectId: string): string[] {
  if (!waiting || waiting.for === 'poll' || waiting.for === 'person') return [];
  const { for: what, reason } = waiting;
  const remedy = waitRemedy(waiting, projectId);
  return [
    `- waits for: **${what}** ${waitTimes(waiting)}${reason ? ` (${plainMarkdown(reason)})` : ''}`,
    ...(remedy === undefined ? [] : [`- what to do: ${plainMarkdown(remedy)}`]),
  ];
}

function attention({ inDoubt, jobId, spec }: JobRun): string[] {
  if (!inDoubt) return [];
  const what = inDoubt.kind === 'create' ? 'the create' : `follow-up ${plainMarkdown(inDoubt.followUpId ?? '')}`;
  const check =
    inDoubt.kind === 'create'
      ? `look in project ${plainMarkdown(spec.projectId)} upstream for a job with this prompt, created about then`
      : `look at job ${plainMarkdown(jobId ?? '')} upstream for this message`;
  const reason = plainMarkdown(inDoubt.reason);
  const [settles, arrived] =
    inDoubt.kind === 'create' ? ['`adopt`', 'adopt --job-id ID_OF_THE_JOB'] : ['`delivered`', 'delivered'];
  const command = (action: string) =>
    `npx agent-jobs resolve ${shellWord(workflowInfo().workflowId)} ${action} \\\n  --since ${inDoubt.since}`;
  return [
    '',
    `**Needs attention** since ${inDoubt.since}: nobody knows whether ${what} arrived (${reason}).`,
    `Look from ${inDoubt.lookAfter} on: before, it may still be on its way.`,
    `To check: ${check}. It is there: ${settles}. It is surely not there: \`retry\`, which otherwise doubles it.`,
    'To give it up: `abandon`.',
    '',
    codeBlock(`${command(arrived)}\n${command('retry')}`),
  ];
}

function decisionLines(decisions: Decision[]): string[] {
  if (decisions.length === 0) return [];
  const shown = decisions.slice(-MAX_DECISIONS);
  const which = decisions.length > shown.length ? ` (the last ${MAX_DECISIONS} of ${decisions.length})` : '';
  return ['', `Decisions${which}:`, '', ...shown.map(decisionLine)];
}

function decisionLine({ action, kind, followUpId, jobId, by, note, at }: Decision): string {
  const write = kind === 'create' ? 'the create' : `follow-up ${plainMarkdown(followUpId ?? '')}`;
  const adopted = jobId === undefined ? '' : ` (job ${plainMarkdown(jobId)})`;
  const author = by === undefined ? '' : ` by ${plainMarkdown(by)}`;
  const reason = note === undefined ? '' : `: ${plainMarkdown(note)}`;
  return `- ${at}: **${action}** for ${write}${adopted}${author}${reason}`;
}

function conflictLines(ids: string[]): string[] {
  if (ids.length === 0) return [];
  const named = ids.map((id) => plainMarkdown(id)).join(', ');
  return ['', `**Ignored**: these ids were said again with another prompt, which was not sent: ${named}`];
}

function followUpLines(followUps: FollowUpStatus[]): string[] {
  if (followUps.length === 0) return [];
  const shown = followUps.slice(-MAX_LISTED);
  const hidden = followUps.length - shown.length;
  return [
    '',
    `Follow-ups${hidden > 0 ? ` (the last ${MAX_LISTED} of ${followUps.length})` : ''}:`,
    '',
    ...shown.map(
      ({ id, state, error }) => `- ${plainMarkdown(id)}: ${state}${error ? ` (${plainMarkdown(error)})` : ''}`,
    ),
  ];
}
