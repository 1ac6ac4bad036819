/**
 * Completion of the command line by a shell. The script of a shell asks the program itself at each word: it never gets
 * out of date, and knows the options of the very command. No server is asked.
 */
import { Argument, type Command, type Option } from 'commander';
import { print, printAnswer } from './session.js';

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
export function addCompletion(program: Command): void {
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
