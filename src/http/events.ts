/** A job's states as server-sent events, until its result. An id is a hash of its event: any server goes on from it. */
import { createHash, randomInt } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import type { JobState } from '../contract.js';
import { readSummary } from '../client/agent-job/run-record.js';
import { shownOf } from '../client/agent-job/wait.js';
import { resultOf, whileWanted } from '../operations/job-end.js';
import type { AgentJobs, JobHandle } from '../starter.js';
import { type Answer, type Call, headerOf } from './request.js';

/** Some proxies end what is silent for half a minute. */
const COMMENT_EVERY_MS = 10_000;
/** The caller comes back then, with a key that may have been withdrawn, and to another server. */
export const STREAM_MS = 10 * 60_000;
/** Many streams may end at once: they come back one after the other. */
const BACK_AFTER_MS = [1_000, 5_000] as const;
const ID_CHARACTERS = 16;
const END = '.end';
const COMMENT = Buffer.from(':\n\n');

/** Streams the states of a job, the present one first, and its result; null once it has streamed. */
export async function streamEvents(call: Call): Promise<Answer | null> {
  const { response, gone } = call;
  const lastId = headerOf(call.request, 'last-event-id');
  const watch = SharedWatch.join(call);
  try {
    // While an answer can still be an error.
    await watch.found;
    gone.throwIfAborted();
    // A browser comes back after every end, until it learns that there is no more.
    if (lastId?.endsWith(END) && (await isOver(call, watch, lastId))) return { status: 204 };
    // nginx would keep events back. Nothing follows on the connection: it would outlive the end of this server.
    const headers = { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no', connection: 'close' };
    // Without `no-transform` a proxy may keep events back to compress them.
    const all = { 'cache-control': 'no-store, no-transform', ...headers };
    if (call.request.method === 'HEAD') return { status: 200, headers: all };
    // No end of a response that has closed before would stop the comments.
    gone.throwIfAborted();
    response.writeHead(200, all).write(':\n\n');
    // Behind what the reader has not taken a comment would say nothing.
    const comment = () => void (response.writableLength > 0 || call.stream(COMMENT).catch(() => {}));
    const comments = setInterval(comment, COMMENT_EVERY_MS);
    response.once('close', () => clearInterval(comments));
    const isDone = await whileWanted(call, STREAM_MS, (signal) => sendStates(call, watch, lastId, signal));
    clearInterval(comments);
    if (!isDone) await call.stream(Buffer.from(`retry: ${randomInt(...BACK_AFTER_MS)}\n\n`));
    return null;
  } finally {
    watch.leave();
  }
}

async function sendStates(call: Call, watch: SharedWatch, lastId: unknown, signal: AbortSignal): Promise<true> {
  for await (const event of watch.states(signal)) {
    if (event.id !== lastId) await call.stream(event.bytes);
  }
  await call.stream(watch.result!.bytes);
  return true;
}

/** Whether the result of this id is the job's last word; without a worker that is not known, and the stream waits. */
async function isOver(call: Call, watch: SharedWatch, lastId: string): Promise<boolean> {
  const first = await whileWanted(call, COMMENT_EVERY_MS, (signal) => watch.states(signal).next()).catch(() => null);
  if (first === null) return false;
  // A run that ended before a worker began it has no state.
  const state = first.done ? null : first.value;
  return (state === null || state.isLast) && endIdOf(state) === lastId;
}

function endIdOf(last: Event | null): string {
  return (last?.id ?? idOf(null)) + END;
}

function idOf(state: JobState | null): string {
  const text = state === null ? '' : shownOf(state);
  return createHash('sha256').update(text).digest('base64url').slice(0, ID_CHARACTERS);
}

/** One text, one id and one Buffer for all readers. */
interface Event {
  readonly id: string;
  readonly bytes: Buffer;
  readonly isLast: boolean;
}

function eventOf(event: 'state' | 'result', id: string, data: Partial<JobState> | object): Event {
  const bytes = Buffer.from(`event: ${event}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`);
  return { id, bytes, isLast: 'phase' in data && data.phase === 'done' };
}

const watches = new WeakMap<AgentJobs, Map<string, SharedWatch>>();

/** One watch of a job for all its streams of this server: a thousand of them ask Temporal no more than one does. */
class SharedWatch extends EventEmitter {
  /** Throws if there is no such job, or if Temporal does not answer. */
  readonly found: Promise<unknown>;
  result: Event | null = null;
  #last: Event | null = null;
  readonly #turn: Call['turn'];
  #readers = 0;
  #error: unknown = null;
  readonly #stop = new AbortController();

  private constructor({ jobs: { client }, job, turn }: Call) {
    super();
    this.#turn = turn;
    this.setMaxListeners(0);
    this.found = readSummary(client, job().workflowId, { signal: this.#stop.signal });
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
  async *states(signal: AbortSignal): AsyncGenerator<Event, void, undefined> {
    for (let sent: Event | null = null; ;) {
      if (this.#error !== null) throw this.#error;
      if (this.#last !== sent) yield (sent = this.#last!);
      else if (this.result !== null) return;
      else await once(this, 'change', { signal });
    }
  }

  async #follow(job: JobHandle): Promise<void> {
    const { signal } = this.#stop;
    try {
      await this.found;
      const end = await resultOf(job, this.#keepLast(job.watch({ signal })), signal);
      this.result = eventOf('result', endIdOf(this.#last), end);
    } catch (error) {
      this.#error = error;
    }
    this.emit('end');
    this.emit('change');
  }

  async #keepLast(states: AsyncIterable<JobState>): Promise<JobState | null> {
    let last: JobState | null = null;
    for await (const state of states) {
      last = state;
      // The readers of other keys wait for it too: it goes on without a turn.
      await this.#turn().catch(() => {});
      this.#last = eventOf('state', idOf(state), state);
      this.emit('change');
    }
    return last;
  }
}
