import { activityInfo } from '@temporalio/activity';
import type { JobRecord } from '../../src/contract.js';
import type { WriteOutcome } from '../../src/contract/write-outcome.js';
import type { WriteOptions } from '../../src/upstream/upstream.js';
import { record, ScriptedUpstream, shown } from './scripted-upstream.js';

/** A scripted upstream that notes when it was called, by the Temporal server's clock, and can be made to hang. */
export class ObservedUpstream extends ScriptedUpstream {
  readonly createTimes: number[] = [];
  readonly messageTimes: number[] = [];
  readonly readTimes: number[] = [];
  /** What a create or a message shows of the job if it succeeds; null is an answer that could not be read. */
  createAnswer: Partial<JobRecord> = {};
  messageAnswer: Partial<JobRecord> | null = {};
  /** Calls wait for these before they answer. */
  createGate: Promise<void> | undefined;
  messageGate: Promise<void> | undefined;
  readGate: Promise<void> | undefined;

  override async createJob(request: { prompt: string }, options?: WriteOptions): Promise<WriteOutcome> {
    this.createTimes.push(attemptTime());
    return showing(await noted(super.createJob(request, options), this.createGate), this.createAnswer);
  }

  override async sendMessage(
    request: { jobId: string; prompt: string },
    options?: WriteOptions,
  ): Promise<WriteOutcome> {
    this.messageTimes.push(attemptTime());
    return showing(await noted(super.sendMessage(request, options), this.messageGate), this.messageAnswer);
  }

  override async getJob(request: { jobId: string }): ReturnType<ScriptedUpstream['getJob']> {
    this.readTimes.push(attemptTime());
    return noted(super.getJob(request), this.readGate);
  }
}

/** The times between the calls, in milliseconds. */
export function gaps(times: readonly number[]): number[] {
  return times.slice(1).map((time, i) => time - times[i]!);
}

/** A promise and the function that settles it. */
export function gate(): { opened: Promise<void>; open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

export { record };

function attemptTime(): number {
  return activityInfo().currentAttemptScheduledTimestampMs;
}

function showing(outcome: WriteOutcome, fields: Partial<JobRecord> | null): WriteOutcome {
  if (outcome.kind !== 'accepted') return outcome;
  const { kind, jobId, job } = outcome;
  return { kind, jobId, ...(fields && job ? shown({ ...job, ...fields }) : { job: null }) };
}

async function noted<T>(answer: Promise<T>, opened: Promise<void> | undefined): Promise<T> {
  answer.catch(() => {});
  await opened;
  return answer;
}
