/**
 * A job's states as server-sent events, until its result. An id is a hash of what it names: any server goes on from it.
 */
import { createHash, randomInt } from 'node:crypto';
import { once } from 'node:events';
import type { JobState } from '../contract.js';
import { JobTerminatedError } from '../client/errors.js';
import { lookAtJob } from '../client/agent-job/list.js';
import { shownOf } from '../client/agent-job/watch.js';
import { resultOf } from './jobs.js';
import { type Answer, type Call, headerOf, whileWanted } from './request.js';

/** Some proxies end what is silent for half a minute; the contract says 15 seconds. */
const COMMENT_EVERY_MS = 10_000;
/** Who reads nothing for so long is taken for gone. */
const IDLE_MS = 60_000;
/** Whoever streams comes back then, with a key that may have been withdrawn, and to another server. */
const STREAM_MS = 10 * 60_000;
/** Many streams may end at once: they come back one after the other. */
const BACK_AFTER_MS = [1_000, 5_000] as const;
const ID_CHARACTERS = 16;
const END = '.end';

/** Streams the states of a job, the present one first, and its result; null where it has streamed. */
export async function streamEvents(call: Call): Promise<Answer | null> {
  const { jobs, request, response, gone } = call;
  const lastId = headerOf(request, 'last-event-id');
  // While an answer can still be an error.
  await lookAtJob(jobs.client, call.job().workflowId, { signal: gone });
  // A browser comes back after every end, until it is told that there is no more.
  if (lastId?.endsWith(END) && (await isOver(call, lastId))) return { status: 204 };
  // nginx would keep events back. Nothing follows on the connection: it would outlive the end of this server.
  const headers = { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no', connection: 'close' };
  response.setTimeout(IDLE_MS, () => response.destroy());
  response.writeHead(200, { 'cache-control': 'no-store', ...headers }).write(':\n\n');
  const comments = setInterval(() => response.writableNeedDrain || response.write(':\n\n'), COMMENT_EVERY_MS);
  try {
    const isDone = await whileWanted(call, STREAM_MS, (signal) => sendStates(call, lastId, signal));
    if (!isDone) response.write(`retry: ${randomInt(...BACK_AFTER_MS)}\n\n`);
    response.end();
  } finally {
    clearInterval(comments);
  }
  return null;
}

async function sendStates(call: Call, lastId: string | undefined, signal: AbortSignal): Promise<true> {
  const job = call.job();
  let last: JobState | null = null;
  try {
    for await (const state of job.watch({ signal })) {
      last = state;
      if (idOf(state) !== lastId) await send(call, 'state', idOf(state), state);
    }
  } catch (error) {
    // Its last state can't be told: its end can.
    if (!(error instanceof JobTerminatedError)) throw error;
  }
  await send(call, 'result', idOf(last) + END, await resultOf(job, last, signal));
  return true;
}

/** Sends an event, and waits for a reader who is slow: nothing piles up here. */
async function send({ response, gone }: Call, event: string, id: string, data: object): Promise<void> {
  const isTaken = response.write(`event: ${event}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`);
  if (!isTaken) await once(response, 'drain', { signal: gone });
}

async function isOver(call: Call, lastId: string): Promise<boolean> {
  const reading = call.job().state({ signal: call.gone });
  const state = await reading.catch(() => null);
  return state?.phase === 'done' && idOf(state) + END === lastId;
}

function idOf(state: JobState | null): string {
  const text = state === null ? '' : shownOf(state);
  return createHash('sha256').update(text).digest('base64url').slice(0, ID_CHARACTERS);
}
