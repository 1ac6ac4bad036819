import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import type { Environment } from '../config.js';

/** A program of ours in a session of its own, which ends when this process does, even by SIGKILL. */
export interface OwnedProcess {
  pid: number;
  /** Settles when the process has ended, with its exit code or signal. */
  ended: Promise<string>;
  hasEnded: () => boolean;
  /** The last lines that it has written so far. */
  lastWords: () => string;
  /** Asks it to end, and kills it where it has not after `graceMs`. */
  stop(graceMs: number): Promise<void>;
}

export interface StartOptions {
  program: string;
  args: readonly string[];
  /** The whole environment of the process: nothing is inherited. */
  env: Environment;
  /** Takes what the process writes to both of its outputs. */
  logFile: string;
}

const LAST_LINES = 10;

/** Starts a program that Ctrl-C in the terminal does not reach, so that the order of stopping stays ours. Throws where it can't be started. */
export async function startOwned({ program, args, env, logFile }: StartOptions): Promise<OwnedProcess> {
  const log = openSync(logFile, 'a');
  const { size: before } = fstatSync(log);
  const child = spawn(program, args, {
    env: { ...env },
    stdio: ['ignore', log, log],
    detached: true,
    windowsHide: true,
  });
  closeSync(log);
  const ended = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', reject);
  });
  const guard = startGuard(child.pid as number);
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  return {
    pid: child.pid as number,
    ended,
    hasEnded,
    lastWords: () => lastLines(readFileSync(logFile).subarray(before).toString()),
    async stop(graceMs) {
      if (!hasEnded()) {
        child.kill('SIGTERM');
        const timer = setTimeout(() => child.kill('SIGKILL'), graceMs);
        await ended;
        clearTimeout(timer);
      }
      guard.kill('SIGKILL');
    },
  };
}

function lastLines(text: string): string {
  return text.trimEnd().split('\n').slice(-LAST_LINES).join('\n');
}

/** A small process that lives as long as its standard input is open, which is as long as we live, and then ends the other. */
function startGuard(pid: number): ChildProcess {
  const script = `process.stdin.resume().on('end', () => {
    const send = (signal) => { try { process.kill(${pid}, signal); } catch { process.exit(); } };
    send('SIGTERM');
    setInterval(() => send(0), 100);
    setTimeout(() => send('SIGKILL'), 3000);
  }).on('error', () => {});`;
  const guard = spawn(process.execPath, ['-e', script], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    windowsHide: true,
    env: {},
  });
  guard.on('error', () => {}); // without a guard the next start still finds and ends what is left
  guard.unref();
  (guard.stdin as NonNullable<typeof guard.stdin> & { unref?: () => void }).unref?.();
  return guard;
}
