/** Says in words what the last polls showed: why a job waits, and why it ended as it did. Pure: no Temporal. */
import { shownStatus } from '../../contract.js';
import type { PollData, PollFindings } from './poll-findings.js';
import { interruptionOf, type Write } from './write.js';

/** What the last poll showed, if that is not part of a job's normal life. */
export function oddPollText({ job, isUnknownStatus, notFound }: PollData): string | undefined {
  if (notFound) return `the upstream answered 404, ${notFound.count} in a row`;
  if (!job || !isUnknownStatus) return undefined;
  return `the upstream says "${shownStatus(job.status)}", a status that its interface does not name`;
}

/** That the upstream has shown ends and taken them back. */
export function unrestText({ unrest }: PollData): string | undefined {
  if (!unrest || unrest.changes === 0) return undefined;
  const since = new Date(unrest.since).toISOString();
  return `since ${since} the upstream has changed what it shows of the end ${unrest.changes} times`;
}

/** Why an end counts that has not stood; null if it has stood, or need not stand. */
export function whyEnded({ known, hasEnded }: PollFindings, now: number): string | null {
  if (known.believed) return `${unrestText(known)}: its last end counts`;
  if (hasEnded) return null;
  return known.isGone ? `after this end, ${lostText(known, now)}` : 'the deadline came before this end had stood';
}

/** What the polls showed of a job that is lost. */
export function lostText({ notFound, job }: PollData, now: number): string {
  const { count, since, page } = notFound ?? { count: 0, since: now };
  const what = page === undefined ? 'answered 404' : `answered by ${page}`;
  const before = job ? `; before, the upstream said "${shownStatus(job.status)}"` : '';
  return `${count} polls in a row over ${Math.round((now - since) / 1_000)} s were ${what}${before}`;
}

/** What the polls showed of a job whose deadline passed. */
export function lastPollText(polls: PollData): string {
  const { job, interruption } = polls;
  if (interruption) return `the last polls failed: ${interruption.reason}`;
  return oddPollText(polls) ?? (job ? `the upstream still said "${shownStatus(job.status)}"` : 'no poll was answered');
}

/** Why a job was not created by its deadline. */
export function notCreatedText(write: Write | null): string {
  return `the job was not created: ${(write && interruptionOf(write)?.reason) ?? 'the create was not sent'}`;
}
