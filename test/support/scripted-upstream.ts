/** An upstream in the test's own process, for tests of the workflow that need an answer of their own at each call. */
import type { JobRecord } from '../../src/contract.js';
import { RejectedError } from '../../src/upstream/errors.js';
import type { ShownJob, WriteOutcome } from '../../src/contract/write-outcome.js';
import { shownJob } from '../../src/upstream/shown-job.js';
import type { Upstream, WriteOptions } from '../../src/upstream/upstream.js';
import { notDelivered } from './outcomes.js';

export class ScriptedUpstream implements Upstream {
  readonly created: string[] = [];
  readonly messages: string[] = [];
  reads = 0;
  /** What the next writes come to instead of success, and what the next polls throw. */
  readonly createFaults: WriteOutcome[] = [];
  readonly messageFaults: WriteOutcome[] = [];
  readonly readFaults: Error[] = [];
  /** The job as polls show it; a function may count. */
  show: (read: number) => Partial<JobRecord> = () => ({
    status: 'completed',
    prLink: 'https://github.example/a/b/pull/1',
  });

  async createJob({ prompt }: { prompt: string }, options?: WriteOptions): Promise<WriteOutcome> {
    if (!(await mayFinish(options))) return TOO_LATE;
    this.created.push(prompt);
    const id = `job-${this.created.length}`;
    return this.createFaults.shift() ?? { kind: 'accepted', jobId: id, ...shown({ id }) };
  }

  async sendMessage(
    { jobId, prompt }: { jobId: string; prompt: string },
    options?: WriteOptions,
  ): Promise<WriteOutcome> {
    if (!(await mayFinish(options))) return TOO_LATE;
    this.messages.push(prompt);
    return this.messageFaults.shift() ?? { kind: 'accepted', jobId, ...shown({ id: jobId }) };
  }

  async getJob({ jobId }: { jobId: string }): Promise<{ job: JobRecord } & ShownJob> {
    this.reads += 1;
    const fault = this.readFaults.shift();
    if (fault) throw fault;
    return shown({ id: jobId, ...this.show(this.reads) });
  }

  keyVersion(): Promise<string | null> {
    return Promise.resolve('a key');
  }

  getVisitors(): Promise<never> {
    return Promise.reject(new RejectedError('no visitors here', 404, ''));
  }
}

export const TOO_LATE = notDelivered('it was too late to send it');

/** Asks before the last byte, as the real client does. */
export async function mayFinish(options: WriteOptions | undefined): Promise<boolean> {
  const isAllowed = await options?.beforeLastByte?.();
  return isAllowed?.() ?? true;
}

/** A record as the upstream's client hands it on. */
export function shown(fields: Partial<JobRecord> = {}): { job: JobRecord } & ShownJob {
  return shownJob(record(fields), [], new Map());
}

export function record(fields: Partial<JobRecord> = {}): JobRecord {
  return {
    id: 'job-1',
    status: 'active',
    source: { repository: 'acme/site', ref: 'main' },
    model: 'm-1',
    prLink: null,
    createdAt: null,
    archivedAt: null,
    ...fields,
  };
}
