/**
 * Lets clocks of this process stand still whenever it was stopped, as they do for a machine that was suspended: a
 * laptop's sleep holds the monotonic clock and the timers, a paused virtual machine may hold all of them.
 */
import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';
import timers from 'node:timers';
import timersPromises from 'node:timers/promises';
import { promisify } from 'node:util';

/**
 * A process that did not look at the clock for so long was stopped: nothing else keeps it from looking every 100 ms.
 */
const STOPPED_FOR_MS = 2_000;
const LOOK_EVERY_MS = 100;

const now = performance.now.bind(performance);
let lookedAt = now();
let heldMs = 0;

/** Notices a stop; how long the clocks have stood still so far, in milliseconds. */
export function look() {
  const time = now();
  if (time - lookedAt > STOPPED_FOR_MS) heldMs += time - lookedAt;
  lookedAt = time;
  return heldMs;
}

/** @param {'monotonic' | 'all'} clocks */
export function holdClocks(clocks) {
  performance.now = () => {
    const held = look();
    return now() - held;
  };
  holdTimers();
  if (clocks === 'all') {
    const wall = Date.now;
    const { uptime } = os;
    Date.now = () => wall() - look();
    os.uptime = () => uptime() - look() / 1_000;
  }
  syncBuiltinESMExports();
  timers.setInterval(look, LOOK_EVERY_MS).unref();
}

/** A timer that is not due by the held clock waits once more. */
function holdTimers() {
  const { setTimeout: set } = timers;
  const { setTimeout: pause } = timersPromises;
  const isDue = (/** @type {number} */ dueAt) => dueAt - performance.now() < 2;
  /** @type {any} */
  const held = (/** @type {(...args: unknown[]) => void} */ call, ms = 1, /** @type {unknown[]} */ ...args) => {
    const dueAt = performance.now() + ms;
    const timer = set(() => (isDue(dueAt) ? call(...args) : timer.refresh()), ms);
    return timer;
  };
  held[promisify.custom] = heldPause;
  /** @param {number} ms @param {any} value @param {any} options @returns {Promise<any>} */
  async function heldPause(ms = 1, value, options) {
    const dueAt = performance.now() + ms;
    do await pause(Math.max(1, dueAt - performance.now()), undefined, options);
    while (!isDue(dueAt));
    return value;
  }
  globalThis.setTimeout = held;
  timers.setTimeout = held;
  timersPromises.setTimeout = /** @type {any} */ (heldPause);
}
