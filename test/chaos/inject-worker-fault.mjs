/**
 * Loaded before the worker (`node --import`): kills, freezes or suspends this very process at one moment of a write.
 * Its URL says which: `?moment=afterFence&nth=3&action=kill&log=FILE`. `freeze40` stops it for 40 s; `sleep40` and
 * `suspend40` do too, and to this process the monotonic clock, or all clocks, have stood still over every stop, also
 * over one from outside.
 */
import { spawn } from 'node:child_process';
import diagnostics from 'node:diagnostics_channel';
import { appendFileSync } from 'node:fs';
import { AsyncCompletionClient } from '@temporalio/client';
import { holdClocks, look } from './held-clocks.mjs';

const options = new URL(import.meta.url).searchParams;
const wanted = options.get('moment');
const action = options.get('action') ?? 'kill';
let left = Number(options.get('nth') ?? 1);
if (action.startsWith('sleep')) holdClocks('monotonic');
if (action.startsWith('suspend')) holdClocks('all');

/** @param {string} moment */
function reached(moment) {
  if (moment !== wanted || --left !== 0) return false;
  appendFileSync(options.get('log') ?? '/dev/null', `${moment} ${action}\n`);
  if (action === 'kill') process.kill(process.pid, 'SIGKILL');
  const seconds = /^(?:freeze|sleep|suspend)(\d+)$/.exec(action)?.[1];
  if (seconds !== undefined) stop(Number(seconds));
  return true;
}

/** @param {number} seconds */
function stop(seconds) {
  look();
  const wake = `sleep ${seconds}; kill -CONT ${process.pid}`;
  spawn('/bin/sh', ['-c', wake], { detached: true, stdio: 'ignore' }).unref();
  process.kill(process.pid, 'SIGSTOP');
  // A stop may take a moment to be one.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
  look();
}

const { heartbeat } = AsyncCompletionClient.prototype;
AsyncCompletionClient.prototype.heartbeat = async function (...args) {
  reached('beforeFence');
  const answer = await heartbeat.apply(this, args);
  reached('afterFence');
  // The server has the mark, but its answer never arrives.
  if (reached('fenceResponse')) throw Object.assign(new Error('14 UNAVAILABLE: connection dropped'), { code: 14 });
  return answer;
};

/** @param {string} channel @param {string} moment */
function atRequest(channel, moment) {
  diagnostics.subscribe(`undici:${channel}`, (message) => {
    if (message.request.method === 'POST') reached(moment);
  });
}
atRequest('client:sendHeaders', 'headersSent');
// All but the last byte.
atRequest('request:bodyChunkSent', 'bodyBegun');
atRequest('request:bodySent', 'bodySent');
atRequest('request:headers', 'responseBegun');
atRequest('request:trailers', 'responseRead');
