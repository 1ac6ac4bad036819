/**
 * One watch of a job for all its streams of this server, from the first stream to the last. A thousand streams of one
 * job ask Temporal no more than one does.
 */
import { EventEmitter, once } from 'node:events';
import type { JobState } from '../contract.js';
import { lookAtJob } from '../client/agent-job/run-record.js';
import { nullIfUnbegun, resultOf } from '../operations/job-end.js';
import type { AgentJobs, JobHandle } from '../starter.js';
import type { Call } from './request.js';

const watches = new WeakMap<AgentJobs, Map<string, SharedWatch>>();

/** A watch that streams join and leave. */
export class SharedWatch extends EventEmitter {
  /** Rejects if there is no such job, or if Temporal does not answer. */
  readonly found: Promise<unknown>;
  last: JobState | null = null;
  result: Awaited<ReturnType<typeof resultOf>> | null = null;
  #readers = 0;
  #error: unknown = null;
  readonly #stop = new AbortController();

  private constructor({ jobs: { client }, job }: Call) {
    super();
    this.setMaxListeners(0);
    this.found = lookAtJob(client, job().workflowId, { signal: this.#stop.signal });
    void this.#follow(job());
  }

  /** Joins the watch that runs, or begins one. The stream calls `leave` at its end. */
  static join(call: Call): SharedWatch {
    const running = watches.get(call.jobs) ?? new Map<string, SharedWatch>();
    watches.set(call.jobs, running);
    const { workflowId } = call.job();
    const watch = running.get(workflowId) ?? new SharedWatch(call);
    watch.#readers += 1;
    // A stream that comes after its end begins a new one: a follow-up may have gone on with the job.
    if (running.get(workflowId) !== watch) watch.once('end', () => running.delete(workflowId));
    running.set(workflowId, watch);
    return watch;
  }

  leave(): void {
    this.#readers -= 1;
    if (this.#readers > 0) return;
    this.emit('end');
    this.#stop.abort();
  }

  /** The present state, and each one that follows: a slow reader misses what is past. */
  async *states(signal: AbortSignal): AsyncGenerator<JobState, void, undefined> {
    for (let sent: JobState | null = null; ;) {
      if (this.#error !== null) throw this.#error;
      if (this.last !== sent) yield (sent = this.last!);
      else if (this.result !== null) return;
      else await once(this, 'change', { signal });
    }
  }

  async #follow(job: JobHandle): Promise<void> {
    const { signal } = this.#stop;
    try {
      await this.found;
      await this.#keepLast(job.watch({ signal })).catch(nullIfUnbegun);
      this.result = await resultOf(job, this.last, signal);
    } catch (error) {
      this.#error = error;
    }
    this.emit('end');
    this.emit('change');
  }

  async #keepLast(states: AsyncIterable<JobState>): Promise<void> {
    for await (const state of states) {
      this.last = state;
      this.emit('change');
    }
  }
}
