/** The program's own function in the process of a test: a process for each command costs most of the CPU of it. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { tmpdir } from 'node:os';
import { Readable } from 'node:stream';
import { createProgram, runProgram } from '../../src/cli/program.js';
import type { CliRun } from './run-cli.js';

const output = new AsyncLocalStorage<CliRun>();
let last: Promise<unknown> = Promise.resolve();

/**
 * Runs a command as a process of its own would, with nothing of this environment but PATH. Commands run one after the
 * other. Signals, terminals, closed pipes and replays need a real process: `runCli`.
 */
export function runInProcess(
  args: readonly string[],
  { env = {}, stdin = '', cwd }: { env?: Record<string, string>; stdin?: string; cwd?: string } = {},
): Promise<CliRun> {
  const run = last.then(async () => {
    const restore = [
      withFolder(cwd ?? process.cwd()),
      withEnvironment({ PATH: process.env['PATH'] ?? '', HOME: tmpdir(), ...env }),
      withProperty(process, 'argv', ['node', 'agent-jobs', ...args]),
      withProperty(process, 'stdin', Readable.from(stdin === '' ? [] : [Buffer.from(stdin)])),
      withProperty(process, 'exit', () => {}),
      withProperty(process.stdout, 'write', writer('stdout', process.stdout)),
      withProperty(process.stderr, 'write', writer('stderr', process.stderr)),
    ];
    const result: CliRun = { code: 0, stdout: '', stderr: '' };
    try {
      await output.run(result, () => runProgram(createProgram('0.0.0')));
      return { ...result, code: Number(process.exitCode ?? 0) };
    } finally {
      process.exitCode = undefined;
      restore.toReversed().forEach((undo) => undo());
    }
  });
  last = run.catch(() => {});
  return run;
}

/** Keeps what the command writes; what workers in this process log goes where it went. */
function writer(name: 'stdout' | 'stderr', stream: NodeJS.WriteStream): NodeJS.WriteStream['write'] {
  const write = stream.write.bind(stream) as (...args: unknown[]) => boolean;
  return (...args: unknown[]) => {
    const run = output.getStore();
    if (run === undefined) return write(...args);
    run[name] += String(args[0]);
    const done = args.at(-1);
    if (typeof done === 'function') (done as () => void)();
    return true;
  };
}

function withProperty(target: object, name: string, value: unknown): () => void {
  const before = Object.getOwnPropertyDescriptor(target, name);
  Object.defineProperty(target, name, { value, configurable: true, writable: true });
  return () => {
    if (before) Object.defineProperty(target, name, before);
    else Reflect.deleteProperty(target, name);
  };
}

function withFolder(folder: string): () => void {
  const before = process.cwd();
  process.chdir(folder);
  return () => process.chdir(before);
}

function withEnvironment(env: Record<string, string>): () => void {
  const before = { ...process.env };
  const set = (wanted: NodeJS.ProcessEnv) => {
    for (const name of Object.keys(process.env)) delete process.env[name];
    Object.assign(process.env, wanted);
  };
  set(env);
  return () => set(before);
}
