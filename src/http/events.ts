/**
 * A job's states as server-sent events, until its result. An id is a hash of what it names: any server goes on from it.
 */
import { createHash, randomInt } from 'node:crypto';
import { once } from 'node:events';
import type { JobState } from '../contract.js';
import { lookAtJob } from '../client/agent-job/list.js';
import { shownOf } from '../client/agent-job/watch.js';
import { nullIfUnbegun, resultOf, whileWanted } from '../operations/job-end.js';
import { type Answer, type Call, headerOf } from './request.js';

/** Some proxies end what is silent for half a minute; the contract says 15 seconds. */
const COMMENT_EVERY_MS = 10_000;
/** The caller comes back then, with a key that may have been withdrawn, and to another server. */
export const STREAM_MS = 10 * 60_000;
/** Many streams may end at once: they come back one after the other. */
const BACK_AFTER_MS = [1_000, 5_000] as const;
const ID_CHARACTERS = 16;
const END = '.end';

/** Streams the states of a job, the present one first, and its result; null where it has streamed. */
export async function streamEvents(call: Call): Promise<Answer | null> {
  const { response, gone, job } = call;
  const lastId = headerOf(call.request, 'last-event-id');
  // While an answer can still be an error.
  await lookAtJob(call.jobs.client, job().workflowId, { signal: gone });
  // A browser comes back after every end, until it is told that there is no more.
  if (lastId?.endsWith(END) && (await isOver(call, lastId))) return { status: 204 };
  // nginx would keep events back. Nothing follows on the connection: it would outlive the end of this server.
  const headers = { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no', connection: 'close' };
  // Without `no-transform` a proxy may keep events back to compress them.
  const all = { 'cache-control': 'no-store, no-transform', ...headers };
  if (call.request.method === 'HEAD') return { status: 200, headers: all };
  // Of one that has closed before, no end would stop the comments.
  gone.throwIfAborted();
  response.writeHead(200, all).write(':\n\n');
  const comments = setInterval(() => response.writableNeedDrain || response.write(':\n\n'), COMMENT_EVERY_MS);
  response.once('close', () => clearInterval(comments));
  const isDone = await whileWanted(call, STREAM_MS, (signal) => sendStates(call, lastId, signal));
  response.end(isDone ? '' : `retry: ${randomInt(...BACK_AFTER_MS)}\n\n`);
  return null;
}

async function sendStates(call: Call, lastId: unknown, signal: AbortSignal): Promise<true> {
  const job = call.job();
  let last: JobState | null = null;
  try {
    for await (const state of job.watch({ signal })) {
      last = state;
      if (idOf(state) !== lastId) await send(call, 'state', idOf(state), state);
    }
  } catch (error) {
    nullIfUnbegun(error);
  }
  await send(call, 'result', idOf(last) + END, await resultOf(job, last, signal));
  return true;
}

/** Sends an event, and waits for a reader who is slow: nothing piles up here. */
async function send({ response, gone }: Call, event: string, id: string, data: object): Promise<void> {
  const isTaken = response.write(`event: ${event}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`);
  if (!isTaken) await once(response, 'drain', { signal: gone });
}

/** Whether the result of this id is the job's last word; without a worker that is not known, and the stream waits. */
async function isOver(call: Call, lastId: string): Promise<boolean> {
  const isLast = async (signal: AbortSignal) => {
    const state = await call.job().state({ signal }).catch(nullIfUnbegun);
    return (state === null || state.phase === 'done') && idOf(state) + END === lastId;
  };
  return (await whileWanted(call, COMMENT_EVERY_MS, isLast).catch(() => null)) ?? false;
}

function idOf(state: JobState | null): string {
  const text = state === null ? '' : shownOf(state);
  return createHash('sha256').update(text).digest('base64url').slice(0, ID_CHARACTERS);
}
