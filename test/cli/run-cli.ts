import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TestServer } from '../support/dev-server.js';
import { distFolder } from '../support/worker-process.js';

export interface CliRun {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface CliOptions {
  env?: Record<string, string>;
  stdin?: string;
  /** Leave HOME out. */
  isHomeless?: boolean;
  /** Stop reading after the first bytes, as `head` does. */
  closesStdoutEarly?: boolean;
  /** Press Ctrl-C once it resolves. */
  interruptWhen?: Promise<void>;
  /** Press Ctrl-C once stderr says so. */
  interruptAt?: RegExp;
  /** Told all of stderr with each piece of it. */
  onStderr?: (soFar: string) => void;
  /** It is ended after this time. */
  mostMs?: number;
}

/** What `npm run build` makes of the command line: a process that compiles the sources takes twice the time. */
export const cliProgram = join(distFolder, 'cli/main.js');
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const MOST_MS = 90_000;

/** Runs the real program in a process of its own, with nothing of this process's environment but PATH. */
export async function runCli(
  args: string[],
  {
    env,
    stdin,
    isHomeless = false,
    closesStdoutEarly,
    interruptWhen,
    interruptAt,
    onStderr,
    mostMs = MOST_MS,
  }: CliOptions = {},
): Promise<CliRun> {
  const child = spawn(process.execPath, [cliProgram, ...args], {
    cwd: ROOT,
    env: { PATH: process.env['PATH'] ?? '', ...(!isHomeless && { HOME: tmpdir() }), ...env },
    timeout: mostMs,
  });
  const run: CliRun = { code: null, stdout: '', stderr: '' };
  let isInterrupted = false;
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    run.stdout += text;
    if (closesStdoutEarly) child.stdout.destroy();
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    run.stderr += text;
    onStderr?.(run.stderr);
    if (!isInterrupted && interruptAt?.test(run.stderr)) isInterrupted = child.kill('SIGINT');
  });
  child.stdin.end(stdin ?? '');
  void interruptWhen?.then(() => child.kill('SIGINT'));
  [run.code] = (await once(child, 'close')) as [number | null];
  return run;
}

/** A terminal with this number of columns. */
export interface TerminalOptions {
  env?: Record<string, string>;
  columns?: number;
  /** Typed at once. */
  typed?: string;
  /** Typed once the output says so, in this order. */
  types?: readonly (readonly [when: RegExp, text: string])[];
}

/** Runs the real program on a terminal of its own, made by script(1); stdout and stderr are one. */
export async function runOnTerminal(
  args: string[],
  { env, columns = 100, typed = '', types = [] }: TerminalOptions = {},
): Promise<{ code: number | null; output: string }> {
  const word = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
  const program = [process.execPath, cliProgram, ...args].map(word).join(' ');
  const command = `stty cols ${columns}; exec ${program}`;
  const child = spawn('script', ['-qfec', command, '/dev/null'], {
    cwd: ROOT,
    env: { PATH: process.env['PATH'] ?? '', HOME: tmpdir(), TERM: 'xterm-256color', SHELL: '/bin/sh', ...env },
    timeout: MOST_MS,
  });
  child.stdin.write(typed);
  let output = '';
  let from = 0;
  const left = [...types];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
    const [next] = left;
    if (!next?.[0].test(output.slice(from))) return;
    from = output.length;
    left.shift();
    child.stdin.write(next[1]);
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output };
}

/** The environment that leads to a test server. */
export function envOf({ address, namespace, taskQueue }: TestServer): Record<string, string> {
  return { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace, AGENT_JOBS_TASK_QUEUE: taskQueue };
}

/** Each line of a JSON Lines output. */
export function jsonLines(text: string): Record<string, unknown>[] {
  const lines = text.split('\n').filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}
