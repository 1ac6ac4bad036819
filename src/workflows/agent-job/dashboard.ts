/**
 * Decides what operators see of a job: search attributes, memo and current details, which change only if something
 * changed; a log line for each send and for the end; and the count of ends. Temporal adds the ids of workflow and run
 * to the lines. No line holds a text of the upstream, which may repeat a prompt. A replay repeats neither lines nor
 * counts. docs/runbooks.md finds lines by their text.
 */
import { defineSearchAttributeKey, SearchAttributeType, type SearchAttributeUpdatePair } from '@temporalio/common';
import {
  log,
  metricMeter,
  setCurrentDetails,
  upsertMemo,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import {
  attributeType,
  FAILURE,
  JOBS_ENDED_METRIC,
  LIMIT,
  MEMO,
  SEARCH_ATTRIBUTE,
  SHOWN_WAITING_FOR,
  shownStatus,
  type FollowUpStatus,
  type Waiting,
} from '../../contract.js';
import { hasEntries, labelsOf, loggedMetadata } from '../../agent-job/fields.js';
import { codeBlock, linkMarkdown, plainMarkdown } from '../../agent-job/web-ui-text.js';
import { shellWord, waitRemedy, waitTimes } from '../../agent-job/shown-text.js';
import type { WriteOutcome } from '../../contract/write-outcome.js';
import type { JobRun } from './job-run.js';
import { outcomeOf, waitingNow } from './job-state.js';
import { inDoubtOf, interruptionOf, mayHaveArrived, notBeforeOf, type Write } from './write.js';

type Attribute = keyof typeof SEARCH_ATTRIBUTE;
const ATTRIBUTES = Object.keys(SEARCH_ATTRIBUTE) as Attribute[];
type Value = string | readonly string[] | undefined;

/** What one run shows. */
export class Dashboard {
  readonly #run: JobRun;
  readonly #inputHash: string;
  readonly #attributes: Partial<Record<Attribute, Value>> = {};
  #memo: Record<string, unknown>;

  constructor(run: JobRun, inputHash: string) {
    this.#run = run;
    this.#inputHash = inputHash;
    const { typedSearchAttributes, memo } = workflowInfo();
    for (const name of ATTRIBUTES) this.#attributes[name] = typedSearchAttributes.get(keyOf(name));
    this.#memo = { ...memo };
  }

  /** Brings all of it up to date. */
  refresh(): void {
    this.refreshDetails();
    this.#refreshAttributes();
    this.#refreshMemo();
  }

  /** The current details alone: they cost no event. */
  refreshDetails(): void {
    setCurrentDetails(currentDetails(this.#run));
  }

  /** The memo as it is now: continue-as-new would drop it. */
  get memo(): Record<string, unknown> {
    return { ...this.#memo };
  }

  #refreshAttributes(): void {
    const wanted = attributesOf(this.#run);
    const changed = ATTRIBUTES.filter((name) => !isSame(wanted[name], this.#attributes[name]));
    // A send lasts seconds: that nothing is waited for meanwhile is worth no event of its own.
    const isWorthIt = this.#run.isSending ? changed.some((name) => name !== 'waitingFor') : changed.length > 0;
    if (!isWorthIt) return;
    upsertSearchAttributes(
      changed.map((name) => ({ key: keyOf(name), value: wanted[name] ?? null }) as SearchAttributeUpdatePair),
    );
    for (const name of changed) this.#attributes[name] = wanted[name];
  }

  #refreshMemo(): void {
    const { title, polls, spec } = this.#run;
    const { prLink } = polls.known;
    const facts = { [MEMO.prLink]: isIndexable(prLink) ? null : prLink };
    // A Schedule, and a client in another language, may start a job without them.
    const wanted = { ...facts, [MEMO.inputHash]: this.#inputHash, [MEMO.title]: title };
    const changed: Record<string, unknown> = Object.fromEntries(
      Object.entries(wanted).filter(([name, value]) => value !== (this.#memo[name] ?? null)),
    );
    // Without metadata a field of that name is another's.
    const { metadata } = spec;
    const isKept = JSON.stringify(metadata) === JSON.stringify(this.#memo[MEMO.metadata]);
    if (hasEntries(metadata) && !isKept) changed[MEMO.metadata] = metadata;
    if (!hasEntries(changed)) return;
    upsertMemo(changed);
    this.#memo = { ...this.#memo, ...wanted, ...changed };
  }
}

function keyOf(name: Attribute) {
  const attribute = SEARCH_ATTRIBUTE[name];
  const isList = attributeType(attribute) === 'KeywordList';
  return defineSearchAttributeKey(attribute, isList ? SearchAttributeType.KEYWORD_LIST : SearchAttributeType.KEYWORD);
}

function isSame(value: Value, other: Value): boolean {
  return value === other || (Array.isArray(value) && JSON.stringify(value) === JSON.stringify(other));
}

function attributesOf(run: JobRun): Record<Attribute, Value> {
  const { spec, phase, polls, jobId } = run;
  const { job, prLink } = polls.known;
  const waiting = waitingNow(run);
  return {
    project: spec.projectId,
    phase,
    status: job ? shownStatus(job.status) : undefined,
    prLink: isIndexable(prLink) ? prLink : undefined,
    waitingFor: SHOWN_WAITING_FOR.find((what) => what === waiting?.for),
    batch: spec.batch ?? undefined,
    tags: spec.tags.length > 0 ? spec.tags : undefined,
    outcome: outcomeOf(run) ?? undefined,
    jobId: jobId ?? undefined,
  };
}

/** Visibility on SQL stores no half characters and no NUL, and cuts nothing. */
function isIndexable(link: string | null): link is string {
  if (link === null) return false;
  return link.length <= LIMIT.prLinkAttributeCharacters && link.isWellFormed() && !/\p{Cc}/u.test(link);
}

/** The web UI shows the last twenty follow-ups; the query has them all. */
const MAX_LISTED_FOLLOW_UPS = 20;

/** Markdown: what a job is, how it stands, what its follow-ups came to, and what a person should decide. */
function currentDetails(run: JobRun): string {
  const { phase, polls } = run;
  const { job, prLinks, work } = polls.known;
  const status = job ? `, upstream status **${plainMarkdown(shownStatus(job.status))}**` : '';
  return [
    `**${plainMarkdown(run.title)}**`,
    '',
    `- phase: **${phase}**`,
    `- job: ${jobText(run)}${status}`,
    `- pull request: ${prLinks.length === 0 ? 'none' : prLinks.map(linkMarkdown).join(', ')}`,
    ...(work?.first && !work.sawWork ? ['- no sign of work after the follow-up'] : []),
    `- last change: ${new Date(polls.known.lastChangeAt).toISOString()}`,
    ...waitingLines(waitingNow(run), run.spec.projectId),
    ...attention(run),
    ...followUpLines(run.followUps.statuses()),
  ].join('\n');
}

/** A create that may have arrived may have made a job. */
function jobText({ jobId, phase, write }: JobRun): string {
  if (jobId !== null) return plainMarkdown(jobId);
  if (phase === 'done') return 'none known';
  return write && (inDoubtOf(write) || mayHaveArrived(write)) ? 'not known' : 'not created yet';
}

/** A usual wait for the next poll needs no line, and a wait for a person has its own below. */
function waitingLines(waiting: Waiting | null, projectId: string): string[] {
  if (!waiting || waiting.for === 'person') return [];
  const { for: what, reason } = waiting;
  if (what === 'poll' && reason === undefined) return [];
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
    `**Needs attention** since ${inDoubt.since}: it is unknown whether ${what} arrived (${reason}).`,
    `Look from ${inDoubt.lookAfter} on: before, it may still be on its way.`,
    `To check: ${check}. It is there: ${settles}. It is surely not there: \`retry\`, which otherwise doubles it.`,
    'To give it up: `abandon`.',
    '',
    codeBlock(`${command(arrived)}\n${command('retry')}`),
  ];
}

function followUpLines(followUps: FollowUpStatus[]): string[] {
  if (followUps.length === 0) return [];
  const shown = followUps.slice(-MAX_LISTED_FOLLOW_UPS);
  const hidden = followUps.length - shown.length;
  return [
    '',
    `Follow-ups${hidden > 0 ? ` (the last ${MAX_LISTED_FOLLOW_UPS} of ${followUps.length})` : ''}:`,
    '',
    ...shown.map(
      ({ id, state, error }) => `- ${plainMarkdown(id)}: ${state}${error ? ` (${plainMarkdown(error)})` : ''}`,
    ),
  ];
}

/** Logs how a send ended, once the run has followed. A write that waits is logged when its reason changes. */
export function logWrite(run: JobRun, before: Write, outcome: WriteOutcome): void {
  const { kind, followUpId } = before;
  const notBefore = run.write ? notBeforeOf(run.write) : 0;
  const ids = { ...idsOf(run), write: kind, ...(followUpId !== undefined && { followUpId }) };
  switch (outcome.kind) {
    case 'accepted':
      return log.info('The upstream took a write', ids);
    case 'inDoubt':
      return log.warn('A write is in doubt: it may or may not have arrived', { ...ids, reason: outcome.reason });
    case 'rejected':
      return log.warn('The upstream rejected a write', { ...ids, status: outcome.status });
    default:
      if (interruptionOf(before)?.reason.startsWith(outcome.reason)) return;
      return log.info('A write waits and is sent again', {
        ...ids,
        reason: outcome.reason,
        ...(notBefore > 0 && { notBefore: new Date(notBefore).toISOString() }),
      });
  }
}

/** Logs and counts a job whose input is invalid. */
export function logInvalidInput(input: unknown, reason: string): void {
  const { projectId } = (input ?? {}) as { projectId?: unknown };
  log.warn('A job was not started: its input is invalid', {
    projectId: typeof projectId === 'string' ? projectId : null,
    reason,
    ...loggedMetadata(labelsOf(input).metadata),
  });
  countEnd(FAILURE.invalidInput);
}

/** Logs and counts the end of a job; a run that continues as new is no end. */
export function logEnd(run: JobRun): void {
  const { polls } = run.polls.known;
  const outcome = outcomeOf(run) ?? 'completed';
  const durationSeconds = Math.round((Date.now() - run.startedAt) / 1_000);
  log.info('The job has ended', { ...idsOf(run), outcome, polls, durationSeconds });
  countEnd(outcome);
}

/** With the caller's own: a correlation id, say. */
function idsOf({ spec, jobId }: JobRun) {
  return { projectId: spec.projectId, jobId, ...loggedMetadata(spec.metadata) };
}

function countEnd(outcome: string): void {
  metricMeter.createCounter(JOBS_ENDED_METRIC, undefined, 'Jobs that ended, by outcome').add(1, { outcome });
}
