/** The whole command line as one tree. */
import { Command, Help, type Option } from 'commander';
import { OPERATIONS } from '../operations.js';
import { addAttention } from './attention.js';
import { addDoctor } from './doctor.js';
import { printError, UsageError, usageErrorText } from './exit.js';
import { addExportInspect, addReport } from './export-inspect.js';
import { addExportBackfill, addExportRun } from './export-run.js';
import { addFollowUp } from './follow-up.js';
import { addList, addQueue, addState } from './inspect.js';
import { addPlainOperation } from './operation.js';
import { addReplayCheck } from './replay-check.js';
import { addResolve } from './resolve.js';
import { addSchedule } from './schedule.js';
import { addMcp, addServe } from './serve.js';
import { addSetup } from './setup.js';
import { addStart } from './start.js';
import { addWait } from './wait.js';

/** Jobs' commands in the order of help. The last two do no more than their rows say. */
const OF_JOBS = [
  ...[addStart, addFollowUp, addState, addWait, addList],
  ...[OPERATIONS.pollNow, OPERATIONS.cancel].map((row) => (program: Command) => addPlainOperation(program, row)),
  addResolve,
];

/** The commands, by who needs them, in the order of help. A command's file loads the rest only when it runs. */
const COMMANDS = {
  'Jobs:': [...OF_JOBS, addAttention, addQueue],
  'Operators:': [addSetup, addPrograms, addServe, addMcp, addDoctor, addReplayCheck],
  'Exports:': [addExport, addReport, addSchedule],
};

/** `agent-jobs export …`: make snapshots of visitors, and check what there is. */
function addExport(program: Command): void {
  const group = program
    .command('export')
    .description('export visitors into the snapshots at SNAPSHOTS_URL, and check what there is');
  addExportRun(group);
  addExportBackfill(group);
  addExportInspect(group);
}

/** Makes the tree anew. */
export function createProgram(version: string): Command {
  const program = new Command('agent-jobs')
    .description('Start, steer and resolve agent jobs on Temporal, and export visitors into snapshots.')
    .version(version)
    .option('--address <host:port>', 'Temporal server (default: TEMPORAL_ADDRESS, the profile, or that of npm start)')
    .option('--namespace <name>', 'Temporal namespace (default: TEMPORAL_NAMESPACE or the profile)')
    .option('--task-queue <name>', 'where the worker listens (default: AGENT_JOBS_TASK_QUEUE or agent-jobs)')
    .configureHelp({ showGlobalOptions: true, subcommandTerm: (command) => command.name(), optionDescription })
    .showSuggestionAfterError(false)
    .exitOverride();
  for (const [heading, group] of Object.entries(COMMANDS)) {
    program.commandsGroup(heading);
    for (const add of group) add(program);
  }
  showUsageOnErrors(program);
  return program;
}

function optionDescription(option: Option): string {
  const text = Help.prototype.optionDescription.call(new Help(), option);
  return option.mandatory ? `${text} (required)` : text;
}

/** Runs the command line of this process; prints an error, and sets its exit code. */
export async function runProgram(program: Command): Promise<void> {
  let called = program;
  program.hook('preAction', (_, command) => void (called = command));
  try {
    await program.parseAsync();
  } catch (error) {
    process.exitCode = printError(called, error as Error);
  }
}

/** Each command shows its own usage, in a few lines: the error before them stays in sight. */
function showUsageOnErrors(command: Command): void {
  command.configureOutput({
    outputError: (text, write) => write(usageErrorText(command, text.trim().replace(/^error: /, ''))),
  });
  command.commands.forEach(showUsageOnErrors);
}

/** `agent-jobs worker` and `agent-jobs dev`: the same as `npm run worker` and `npm start` of the repository. */
function addPrograms(program: Command): void {
  program
    .command('worker')
    .description('run a worker, by the settings of the environment, until SIGTERM')
    .action(async (_, command: Command) => {
      checkNoServerOptions(command, 'the worker reads TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE and AGENT_JOBS_TASK_QUEUE');
      await import('../worker.js');
    });
  program
    .command('dev')
    .description('run a server, a worker, a sandbox upstream and a job to watch, on this machine')
    .option('--real', 'jobs go to the upstream of UPSTREAM_BASE_URL and ADMIN_API_KEY instead of a sandbox')
    .option('--late-pr <duration>', 'how long after "completed" the sandbox shows the pull request')
    .option('--stale-end <duration>', 'how long after a message the sandbox shows the old status')
    .action(async (_, command: Command) => {
      checkNoServerOptions(command, 'the servers of "agent-jobs dev" are its own');
      // The program reads its own command line.
      process.argv.splice(2, 1);
      await import('../local/main.js');
      // The servers run on until the program ends this process itself.
      if (!process.exitCode) await new Promise(() => {});
    });
}

/** An option that would be ignored could lead jobs to another server than was meant. */
function checkNoServerOptions(command: Command, reason: string): void {
  const { address, namespace, taskQueue } = command.optsWithGlobals<Record<string, string | undefined>>();
  const given = Object.entries({ '--address': address, '--namespace': namespace, '--task-queue': taskQueue });
  const [named] = given.find(([, value]) => value !== undefined) ?? [];
  if (named !== undefined) throw new UsageError(`${named} can't be given here: ${reason}`);
}
