/** The whole command line as one tree: the program runs it, and the completion of a shell walks it. */
import { Argument, Command, Help, type Option } from 'commander';
import { addAttention } from './attention.js';
import { addDoctor, addSetup } from './doctor.js';
import { tellBadEnd, tellError, UsageError, usageErrorText } from './exit.js';
import { addExportClean, addExportInspect, addReport } from './export-inspect.js';
import { addExportBackfill, addExportRun } from './export-run.js';
import { addList, addWatch } from './list.js';
import { addOpen, addState } from './state.js';
import { addQueue } from './queue.js';
import { addReconcile } from './reconcile.js';
import { addReplayCheck } from './replay-check.js';
import { addResolve } from './resolve.js';
import { addSchedule } from './schedule.js';
import { print, printAnswer } from './session.js';
import { addMcp, addServe } from './serve.js';
import { addFollowUp, addSignals } from './signals.js';
import { addStart } from './start.js';
import { addWait } from './wait.js';

/** By who needs them, in the order of help. Each is a file that loads what it needs only when a command runs. */
const COMMANDS = {
  'Callers:': [addStart, addFollowUp, addState, addWait, addList, addWatch, addSignals, addOpen],
  'Operators:': [
    ...[addSetup, addPrograms, addServe, addMcp, addDoctor, addAttention, addResolve, addReconcile],
    ...[addQueue, addReplayCheck, addCompletion],
  ],
  'Exports:': [addExport, addReport, addSchedule],
};
/** Commands that few need: the last line of help names them. */
const UNLISTED = ['poll-now', 'reconcile', 'replay-check', 'completion', 'help'];

/** `agent-jobs export …`: make snapshots of visitors, and tell what there is. */
function addExport(program: Command): void {
  const group = program.command('export').description('export visitors into snapshots, and check what there is');
  addExportRun(group);
  addExportBackfill(group);
  addExportInspect(group);
  addExportClean(group);
}

/** Makes the tree anew. */
export function createProgram(version: string): Command {
  const program = new Command('agent-jobs')
    .description('Start, steer and settle agent jobs on Temporal, and export visitors into snapshots.')
    .version(version)
    .option('--address <host:port>', 'Temporal server (default: TEMPORAL_ADDRESS or the profile)')
    .option('--namespace <name>', 'Temporal namespace (default: TEMPORAL_NAMESPACE or the profile)')
    .option('--task-queue <name>', 'where the worker listens (default: AGENT_JOBS_TASK_QUEUE or agent-jobs)')
    .exitOverride();
  program
    .addHelpText('beforeAll', ({ command }) => `${command.description()}\n`)
    .addHelpText('after', `\nAlso: ${UNLISTED.join(', ')}. "agent-jobs help COMMAND" tells of one.`)
    .configureHelp({
      showGlobalOptions: true,
      // It is the first line.
      commandDescription: () => '',
      subcommandTerm: (command) => command.name(),
      visibleCommands: (command) =>
        new Help().visibleCommands(command).filter((one) => command !== program || !UNLISTED.includes(one.name())),
    });
  for (const [heading, group] of Object.entries(COMMANDS)) {
    program.commandsGroup(heading);
    for (const add of group) add(program);
  }
  showUsageOnErrors(program);
  return program;
}

/** Runs the command line of this process; an error is told, and its exit code set. */
export async function runProgram(program: Command): Promise<void> {
  let called = program;
  program.hook('preAction', (_, command) => void (called = command));
  try {
    await program.parseAsync();
    tellBadEnd(Number(process.exitCode ?? 0));
  } catch (error) {
    process.exitCode = tellError(called, error as Error);
  }
}

/** Each command shows its own usage, in so few lines that the error before them stays in sight. */
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
      refuseServerOptions(command, 'the worker reads TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE and AGENT_JOBS_TASK_QUEUE');
      await import('../worker.js');
    });
  program
    .command('dev')
    .description('run a server, a worker, a sandbox upstream and a job to watch, on this machine')
    .option('--real', 'jobs go to the upstream of UPSTREAM_BASE_URL and ADMIN_API_KEY instead of a sandbox')
    .action(async ({ real }: { real?: true }, command: Command) => {
      refuseServerOptions(command, 'the servers of "agent-jobs dev" are its own');
      // The program reads its own command line.
      process.argv.splice(2, Infinity, ...(real ? ['--real'] : []));
      await import('../local/main.js');
    });
}

/** An option that would be ignored could lead jobs to another server than was meant. */
function refuseServerOptions(command: Command, reason: string): void {
  const { address, namespace, taskQueue } = command.optsWithGlobals<Record<string, string | undefined>>();
  const given = Object.entries({ '--address': address, '--namespace': namespace, '--task-queue': taskQueue });
  const [named] = given.find(([, value]) => value !== undefined) ?? [];
  if (named !== undefined) throw new UsageError(`${named} can't be given here: ${reason}`);
}

// Completion of the command line by a shell. The script of a shell asks the program itself at each word: it never
// gets out of date, and knows the options of the very command. No server is asked.

const SHELLS = {
  bash: `_agent_jobs() {
  local IFS=$'\\n'
  COMPREPLY=($(agent-jobs __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _agent_jobs agent-jobs`,
  zsh: `#compdef agent-jobs
_agent_jobs() {
  local -a found
  found=("\${(@f)$(agent-jobs __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "$found[1]" ]]; then compadd -- $found; else _files; fi
}
compdef _agent_jobs agent-jobs`,
  fish: `function __agent_jobs_complete
  set -l typed (commandline -opc)
  set -l found (agent-jobs __complete -- $typed[2..] (commandline -ct) 2>/dev/null)
  if set -q found[1]
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c agent-jobs -f -a '(__agent_jobs_complete)'`,
} as const;

const INSTALL = `
To switch it on:
  bash  source <(agent-jobs completion bash)               in ~/.bashrc
  zsh   source <(agent-jobs completion zsh)                in ~/.zshrc, after compinit
  fish  agent-jobs completion fish | source                in ~/.config/fish/config.fish

Where only npx finds the program, a function goes before that line:
  bash, zsh  agent-jobs() { npx agent-jobs "$@"; }
  fish       function agent-jobs; npx agent-jobs $argv; end`;

/** Adds `completion`, and the hidden command that its scripts call. */
function addCompletion(program: Command): void {
  program
    .command('completion')
    .description('print the script with which a shell completes commands and options')
    .addArgument(new Argument('<shell>', 'the shell').choices(Object.keys(SHELLS)))
    .option('--json', 'print it as JSON')
    .addHelpText('after', INSTALL)
    .action((shell: keyof typeof SHELLS, { json }: { json?: boolean }) => {
      printAnswer(json, { shell, script: SHELLS[shell] }, () => SHELLS[shell]);
    });
  program
    .command('__complete', { hidden: true })
    .argument('[words...]')
    .action((words: string[]) => {
      const found = candidatesFor(program, words);
      if (found.length > 0) print(found.join('\n'));
    });
}

/** What may stand where the last of the words is being typed. */
function candidatesFor(program: Command, words: readonly string[]): string[] {
  const typed = words.at(-1) ?? '';
  const before = words.slice(0, -1);
  const { command, open } = walk(program, before);
  if (before.includes('--')) return [];
  const all = open ? (open.argChoices ?? []) : typed.startsWith('-') ? optionsOf(command) : namesOf(command);
  return all.filter((candidate) => candidate.startsWith(typed)).sort();
}

/** The command that the words have led to, and the option whose value comes next. */
function walk(program: Command, words: readonly string[]): { command: Command; open: Option | undefined } {
  let command = program;
  let open: Option | undefined;
  for (const word of words) {
    if (open) open = undefined;
    else if (word.startsWith('-')) {
      const option = allOptions(command).find(({ long, short }) => long === word || short === word);
      open = option?.required ? option : undefined;
    } else command = command.commands.find((child) => child.name() === word) ?? command;
  }
  return { command, open };
}

function optionsOf(command: Command): string[] {
  const names = allOptions(command).flatMap(({ long, hidden }) => (long && !hidden ? [long] : []));
  return [...new Set([...names, '--help'])];
}

/** The options of the connection may stand after the command's name, too. */
function allOptions(command: Command): Option[] {
  return [...command.options, ...(command.parent ? allOptions(command.parent) : [])];
}

function namesOf(command: Command): string[] {
  return command.commands.map((child) => child.name()).filter((name) => !name.startsWith('__'));
}
