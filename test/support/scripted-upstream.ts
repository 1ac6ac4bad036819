/** An upstream in the test's own process, for tests of the workflow that need an answer of their own at each call. */
import type { JobRecord } from '../../src/contract.js';
import { NotSentError, RejectedError } from '../../src/upstream/errors.js';
import type { CreatedJob, Upstream, WriteOptions } from '../../src/upstream/upstream.js';

export class ScriptedUpstream implements Upstream {
  readonly created: string[] = [];
  readonly messages: string[] = [];
  reads = 0;
  /** What the next calls do instead of succeeding: throw it. */
  readonly createFaults: Error[] = [];
  readonly messageFaults: Error[] = [];
  readonly readFaults: Error[] = [];
  /** The job as reads show it; a function may count. */
  show: (read: number) => Partial<JobRecord> = () => ({
    status: 'completed',
    prLink: 'https://github.example/a/b/pull/1',
  });

  async createJob({ prompt }: { prompt: string }, options?: WriteOptions): Promise<CreatedJob> {
    await mayFinish(options);
    this.created.push(prompt);
    const id = `job-${this.created.length}`;
    return answer(this.createFaults, { id, job: record({ id }) });
  }

  async sendMessage({ jobId, prompt }: { jobId: string; prompt: string }, options?: WriteOptions): Promise<JobRecord> {
    await mayFinish(options);
    this.messages.push(prompt);
    return answer(this.messageFaults, record({ id: jobId }));
  }

  getJob({ jobId }: { jobId: string }): Promise<JobRecord> {
    this.reads += 1;
    return answer(this.readFaults, record({ id: jobId, ...this.show(this.reads) }));
  }

  keyVersion(): Promise<string | null> {
    return Promise.resolve('a key');
  }

  getVisitors(): Promise<never> {
    return Promise.reject(new RejectedError('no visitors here', 404, ''));
  }
}

/** Asks before the last byte, as the real client does. */
export async function mayFinish(options: WriteOptions | undefined): Promise<void> {
  const isAllowed = await options?.beforeLastByte?.();
  if (isAllowed && !isAllowed()) throw new NotSentError('it was too late to send it');
}

function answer<T>(faults: Error[], value: T): Promise<T> {
  const fault = faults.shift();
  return fault ? Promise.reject(fault) : Promise.resolve(value);
}

export function record(fields: Partial<JobRecord> = {}): JobRecord {
  return {
    id: 'job-1',
    status: 'active',
    source: { repository: 'acme/site', ref: 'main' },
    model: 'm-1',
    prLink: null,
    createdAt: '2026-01-01T00:00:00.000Z',
    archivedAt: null,
    ...fields,
  };
}
