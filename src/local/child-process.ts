/** Child processes that end when this process does, ports for them, and the order in which parts are stopped. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Environment } from '../config.js';

/** A child process in a session of its own, which ends when this process does, even by SIGKILL. */
export interface ManagedProcess {
  pid: number;
  /** Settles when the process has ended, with its exit code or signal. */
  ended: Promise<string>;
  hasEnded: () => boolean;
  logFile: string;
  /** The last lines of its output so far. */
  logTail: () => string;
  /** Asks it to end, and kills it if it has not after `graceMs`. */
  stop(graceMs: number): Promise<void>;
}

interface StartOptions {
  program: string;
  args: readonly string[];
  /** The whole environment of the process: nothing is inherited. */
  env: Environment;
  /** Takes what the process writes to both of its outputs. */
  logFile: string;
}

const LAST_LINES = 10;
const READY_TIME_LIMIT_MS = 60_000;

/** Starts a program out of reach of the terminal's Ctrl-C; throws if it can't be started. */
export async function startProcess({ program, args, env, logFile }: StartOptions): Promise<ManagedProcess> {
  const log = openSync(logFile, 'a');
  const { size: before } = fstatSync(log);
  const alone = { detached: true, windowsHide: true };
  const child = spawn(program, args, { env: { ...env }, stdio: ['ignore', log, log], ...alone });
  closeSync(log);
  // At once: a Ctrl-C may end this process before the child has reported its start.
  const watchdog = child.pid === undefined ? undefined : startWatchdog(child.pid);
  const ended = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
  await once(child, 'spawn');
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  return {
    pid: child.pid as number,
    ended,
    hasEnded,
    logFile,
    logTail: () =>
      readFileSync(logFile).subarray(before).toString().trimEnd().split('\n').slice(-LAST_LINES).join('\n'),
    async stop(graceMs) {
      if (!hasEnded()) {
        child.kill('SIGTERM');
        const timer = setTimeout(() => child.kill('SIGKILL'), graceMs);
        await ended;
        clearTimeout(timer);
      }
      watchdog?.kill('SIGKILL');
    },
  };
}

/**
 * Waits until the check of a program succeeds; throws, with the program's last words, if it ends before or takes too
 * long. An abort ends the wait.
 */
export async function untilReady(
  name: string,
  child: ManagedProcess,
  check: () => Promise<void>,
  signal?: AbortSignal,
): Promise<void> {
  for (const deadline = Date.now() + READY_TIME_LIMIT_MS; ; await delay(50)) {
    signal?.throwIfAborted();
    const failure = await check().catch((error: unknown) => error);
    if (!child.hasEnded() && failure === undefined) return;
    if (!child.hasEnded() && Date.now() < deadline) continue;
    const why = child.hasEnded() ? `ended with ${await child.ended}` : `was not ready in time: ${String(failure)}`;
    throw new Error(`${name} ${why}; its last words (${child.logFile}):\n${child.logTail()}`);
  }
}

/** Fetches from a program of this machine, over a connection of its own; throws unless the answer is good. */
export async function checkAnswer(url: string): Promise<void> {
  const response = await fetch(url, { signal: AbortSignal.timeout(5_000), headers: { connection: 'close' } });
  await response.arrayBuffer();
  if (!response.ok) throw new Error(`${url} answers ${response.status}`);
}

/** Starts a process that ends the given one when its standard input closes, which happens when this process ends. */
function startWatchdog(pid: number): ChildProcess {
  const script = `process.stdin.resume().on('end', () => {
    const send = (signal) => { try { process.kill(${pid}, signal); } catch { process.exit(); } };
    send('SIGTERM');
    setInterval(() => send(0), 100);
    setTimeout(() => send('SIGKILL'), 3000);
  }).on('error', () => {});`;
  const alone = { detached: true, windowsHide: true, env: {} };
  const watchdog = spawn(process.execPath, ['-e', script], { stdio: ['pipe', 'ignore', 'ignore'], ...alone });
  watchdog.on('error', () => {}).unref();
  (watchdog.stdin as NonNullable<typeof watchdog.stdin> & { unref?: () => void }).unref?.();
  return watchdog;
}

/** How the parts of a system are stopped, in the order of their starts. */
export type Stops = (() => unknown)[];

/** Stops all parts, the last one first; throws the first failure once all were stopped. */
export async function stopAll(stops: Stops): Promise<void> {
  const failures: unknown[] = [];
  for (let stop = stops.pop(); stop; stop = stops.pop()) {
    try {
      await stop();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0] as Error;
}

// Below the range from which the system takes ports for outgoing connections (32768 and up on Linux).
const MIN_PORT = 20_000;
const MAX_PORT = 32_000;
const MAX_TRIES = 200;

/** A free TCP port of the loopback address: the preferred one if it is free, and none of those already chosen. */
export async function freePort(preferred?: number, chosen: readonly number[] = []): Promise<number> {
  const any = () => MIN_PORT + Math.floor(Math.random() * (MAX_PORT - MIN_PORT));
  for (let [i, port] = [0, preferred ?? any()]; i < MAX_TRIES; i++, port = any()) {
    if (!chosen.includes(port) && (await isFree(port))) return port;
  }
  throw new Error(`No free port found between ${MIN_PORT} and ${MAX_PORT} in ${MAX_TRIES} tries`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}
