/** What every command shares: its connection, its output, and a Ctrl-C that ends a wait and never a job. */
import type { Command } from 'commander';
import type { AgentJobs, CallOptions, ConnectSettings } from '../starter.js';
import { jsonLine } from '../agent-job/shown-text.js';
import { addressOf } from '../client/web-ui.js';
import { CommandError, UsageError } from './exit.js';
import { countOf, printable, printableLines } from './show.js';

/** Options that every command takes, before or after its name; the connection's override the environment. */
export interface GlobalOptions {
  address?: string;
  namespace?: string;
  taskQueue?: string;
}

/** What a command works with while it is connected. */
export interface Session {
  jobs: AgentJobs;
  globals: GlobalOptions;
  /** Aborted by Ctrl-C, which ends a wait and never a job. */
  signal: AbortSignal;
}

/** Connects, runs the action of a command, and disconnects whatever happens. */
export async function withSession(command: Command, action: (session: Session) => Promise<void>): Promise<void> {
  const globals = command.optsWithGlobals<GlobalOptions>();
  await withInterrupt(async (signal) => {
    const jobs = await connect(globals);
    try {
      await action({ jobs, globals, signal });
    } finally {
      await jobs.close();
    }
  });
}

/** Which server a command talks to, and where the workers listen there. */
export function serverOf({ jobs: { client, taskQueue } }: Pick<Session, 'jobs'>): string {
  return `${addressOf(client)}, namespace ${client.options.namespace}, task queue ${taskQueue}`;
}

/** The version of the program. */
export function versionOf(command: Command): string {
  return command.parent ? versionOf(command.parent) : (command.version() ?? '');
}

/** Connects; throws ConfigError or, within seconds, TemporalCallError. */
export async function connect(globals: GlobalOptions, options: CallOptions = {}): Promise<AgentJobs> {
  // Loaded here, so that help and wrong commands answer at once.
  const { AgentJobs } = await import('../starter.js');
  const { readPayloadKeys } = await import('../config/client.js');
  const { payloadCodecs } = await import('../temporal/payload-codec.js');
  const dataConverter = payloadCodecs(readPayloadKeys());
  const local = await localSettings(globals);
  const { address = local.address, namespace, taskQueue = local.taskQueue } = globals;
  return AgentJobs.connect({ ...local, address, namespace, taskQueue, dataConverter }, options);
}

/** The settings that lead to the system of `npm start`, if nothing names another server: its first command says so. */
async function localSettings({ address, namespace }: GlobalOptions): Promise<ConnectSettings> {
  const { leadToLocal, namesTemporal, processEnvironment: env, readClientConfig } = await import('../config/client.js');
  const { isToldFirst, runningSystems } = await import('../local/data-folder.js');
  const running = await runningSystems(env);
  if (running.length === 0) return {};
  const isNamed = (address ?? namespace) !== undefined || namesTemporal(env);
  if (!isNamed && running.length > 1) {
    const places = running.map((one) => `  --address ${one.address}   ${one.folder}`);
    throw new UsageError([`several systems of "npm start" run: name the one that is meant`, ...places].join('\n'));
  }
  const named = readClientConfig(env, address).temporal.address;
  const local = isNamed ? running.find((one) => one.address === named) : running[0];
  if (local === undefined) return {};
  if (!isNamed && isToldFirst(local.folder))
    printToStderr(`agent-jobs: the server is that of npm start, ${local.address}, ${local.folder}`);
  leadToLocal(local.address);
  return {
    address: local.address,
    taskQueue: env['AGENT_JOBS_TASK_QUEUE'] ? undefined : local.taskQueue,
    webUiUrl: env['AGENT_JOBS_WEB_UI_URL'] ? undefined : local.webUiUrl,
  };
}

/** Runs what Ctrl-C ends by the signal. */
export async function withInterrupt(action: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const interrupt = new AbortController();
  const onInterrupt = () => interrupt.abort(new CommandError('interrupted', 'interrupted; what was started goes on'));
  process.once('SIGINT', onInterrupt);
  try {
    await action(interrupt.signal);
  } finally {
    process.off('SIGINT', onInterrupt);
  }
}

/** Prints lines for people or programs; whatever stands in them, a terminal only shows it. */
export function print(line: string): void {
  process.stdout.write(`${printableLines(line)}\n`);
}

/** Prints one value as a line of JSON. */
export function printJson(value: unknown): void {
  process.stdout.write(`${jsonLine(value)}\n`);
}

/** Prints an answer, for a program or for a person. */
export function printAnswer(isJson: boolean | undefined, value: unknown, text: () => string): void {
  if (isJson) printJson(value);
  else print(text());
}

/** One answer of many: its line of JSON and its text, or why it could not be read. */
export type Item = { line: object; text: string } | { problem: string };

/** Prints items as they come; throws at the end if one could not be read. */
export async function printItems(
  items: AsyncIterable<Item>,
  { isJson = false, noun, none }: { isJson: boolean | undefined; noun: string; none: string },
): Promise<void> {
  let [shown, unread] = [0, 0];
  for await (const item of items) {
    if ('problem' in item) {
      unread += 1;
      printToStderr(printable(`agent-jobs: ${item.problem}`));
    } else {
      shown += 1;
      printAnswer(isJson, item.line, () => `${item.text}\n`);
    }
  }
  if (unread > 0) throw new CommandError('error', `${countOf(unread, noun)} could not be read`);
  if (shown === 0 && !isJson) print(none);
}

/** Prints a line for a person that is not the answer itself. */
export function printToStderr(line: string): void {
  process.stderr.write(`${printableLines(line)}\n`);
}

/** Prints lines of progress to stderr: each that is new, and at most one in `everyMs`. */
export function progressPrinter(everyMs = 0, printedAt = -Infinity): (line: string) => void {
  let last = '';
  return (line) => {
    const now = performance.now();
    if (line === last || now - printedAt < everyMs) return;
    last = line;
    printedAt = now;
    printToStderr(line);
  };
}
