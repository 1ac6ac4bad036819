#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { addAttention } from './attention.js';
import { addCost } from './cost.js';
import { addDoctor } from './doctor.js';
import { EXIT, InterruptedError, UsageError } from './exit.js';
import { addExportBackfill } from './export-backfill.js';
import { addExportClean } from './export-clean.js';
import { addExportCsv } from './export-csv.js';
import { addExportInspect } from './export-inspect.js';
import { addExportRun } from './export-run.js';
import { addInspect } from './inspect.js';
import { addList } from './list.js';
import { addQueue } from './queue.js';
import { addReplayCheck } from './replay-check.js';
import { addReport } from './report.js';
import { addResolve } from './resolve.js';
import { addSchedule } from './schedule.js';
import { addSetup } from './setup.js';
import { addFollowUp, addSignals } from './signals.js';
import { addStart } from './start.js';

/** Every group of commands: each is a file that loads what it needs only when a command runs. */
const COMMANDS = [
  addSetup,
  addDoctor,
  addStart,
  addFollowUp,
  addInspect,
  addList,
  addCost,
  addAttention,
  addQueue,
  addResolve,
  addSignals,
  addExport,
  addReport,
  addReplayCheck,
  addSchedule,
];

/** `agent-jobs export …`: make snapshots of visitors, and tell what there is. */
function addExport(program: Command): void {
  const group = program.command('export').description('export visitors into snapshots, and check what there is');
  addExportRun(group);
  addExportBackfill(group);
  addExportInspect(group);
  addExportCsv(group);
  addExportClean(group);
}

function createProgram(): Command {
  const program = new Command('agent-jobs')
    .description('Start, steer and settle agent jobs on Temporal, and export visitors into snapshots.')
    .version(readVersion())
    .option('--address <host:port>', 'Temporal server (default: TEMPORAL_ADDRESS or the profile)')
    .option('--namespace <name>', 'Temporal namespace (default: TEMPORAL_NAMESPACE or the profile)')
    .option('--task-queue <name>', 'where the worker listens (default: AGENT_JOBS_TASK_QUEUE or agent-jobs)')
    .configureHelp({ showGlobalOptions: true })
    .exitOverride();
  for (const add of COMMANDS) add(program);
  showUsageOnErrors(program);
  return program;
}

/** Each command shows its own usage, in so few lines that the error before them stays in sight. */
function showUsageOnErrors(command: Command): void {
  command.configureOutput({
    outputError: (text, write) => write(`agent-jobs: ${text.trim().replace(/^error: /, '')}\n${usageOf(command)}`),
  });
  command.commands.forEach(showUsageOnErrors);
}

function readVersion(): string {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  return version;
}

/** By the names of the client's errors, whose classes are loaded only when a command needs them. */
const CAUSE_EXIT: Record<string, number> = {
  TemporalUnavailableError: EXIT.unavailable,
  NoWorkerError: EXIT.noWorker,
  WorkerBusyError: EXIT.noWorker,
  WorkflowTaskFailingError: EXIT.noWorker,
};

async function main(): Promise<void> {
  // A closed pipe is no error: its reader has seen enough.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit();
    throw error;
  });
  const program = createProgram();
  let called = program;
  program.hook('preAction', (_, command) => void (called = command));
  try {
    await program.parseAsync();
  } catch (error) {
    process.exitCode = exitCodeOf(called, error as Error);
  }
}

function exitCodeOf(called: Command, error: Error): number {
  // Commander has printed it already; help and version end with 0.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  process.stderr.write(`agent-jobs: ${error.message}\n`);
  if (error instanceof InterruptedError) return EXIT.interrupted;
  if (!(error instanceof UsageError) && error.name !== 'InvalidInputError') return exitCodeOfCause(error);
  process.stderr.write(usageOf(called));
  return EXIT.usage;
}

/** Of the error or what it was caused by, whichever says more. */
function exitCodeOfCause(error: Error): number {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    const code = CAUSE_EXIT[cause.name];
    if (code !== undefined) return code;
  }
  return EXIT.error;
}

function usageOf(command: Command): string {
  return `Usage: ${command.createHelp().commandUsage(command)}\n(${nameOf(command)} --help lists the options)\n`;
}

function nameOf(command: Command): string {
  return command.parent ? `${nameOf(command.parent)} ${command.name()}` : command.name();
}

await main();
