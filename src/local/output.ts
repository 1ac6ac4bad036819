import { printableLines } from '../agent-job/terminal-text.js';
import { shellWord } from '../agent-job/waiting-text.js';
import type { Environment } from '../config.js';
import { DEFAULT_TASK_QUEUE } from '../contract.js';

const LABEL_WIDTH = 12;

/** Prints whole lines: the same on a terminal as in a file, but for bold labels. */
export class Output {
  readonly #isBold: boolean;

  constructor(env: Environment) {
    this.#isBold = process.stdout.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb';
    // A closed pipe must not end this process before its children.
    process.stdout.on('error', () => {});
    process.stderr.on('error', () => {});
  }

  /** A line that begins with a label. */
  entry(label: string, text: string): void {
    const padded = label.padEnd(LABEL_WIDTH);
    this.#write(`${this.#isBold ? `\u001B[1m${padded}\u001B[22m` : padded}${printableLines(text)}`);
  }

  line(text = ''): void {
    this.#write(printableLines(text));
  }

  error(text: string): void {
    process.stderr.write(`${printableLines(text)}\n`);
  }

  #write(text: string): void {
    process.stdout.write(`${text}\n`);
  }
}

/** What the commands to try next depend on. */
export interface NextStepsOptions {
  address: string;
  taskQueue: string;
  /** The demo job; undefined where jobs are real. */
  workflowId?: string | undefined;
  /** Where exports put their snapshots. */
  snapshotsUrl: string;
  /** Settings of the user's shell that would lead the commands to another server. */
  unset: readonly string[];
  /** An empty Temporal profile, for a user who has one that leads elsewhere. */
  profileFile?: string | undefined;
}

/** Commands to try next, each one line that runs as it is from the project's folder. */
export function nextSteps(options: NextStepsOptions): string[] {
  const { address, taskQueue, workflowId, snapshotsUrl, unset, profileFile } = options;
  const profile = profileFile === undefined ? [] : [`TEMPORAL_CONFIG_FILE=${shellWord(profileFile)}`];
  const changes = [...unset.map((name) => `-u ${name}`), ...profile];
  const prefix = changes.length > 0 ? `env ${changes.join(' ')} ` : '';
  const queue = taskQueue === DEFAULT_TASK_QUEUE ? '' : ` --task-queue ${shellWord(taskQueue)}`;
  const place = `--address ${address}${queue}`;
  const cli = (command: string) => `${prefix}npx agent-jobs ${command} ${place}`;
  const project = workflowId === undefined ? 'YOUR_PROJECT_ID' : 'demo';
  return [
    cli(`start 'Add a page about pricing' --project ${project} --wait`),
    ...(workflowId === undefined
      ? [cli('list')]
      : [
          cli(`follow-up ${shellWord(workflowId)} 'Now in French, too' --wait`),
          cli(`state ${shellWord(workflowId)}`),
          cli('list'),
        ]),
    cli(`export run --project ${project}`),
    `npx agent-jobs report --project ${project} --snapshots ${shellWord(snapshotsUrl)}`,
    `python3 -m pip install temporalio && ${prefix}python3 examples/python/start_job.py --project ${project} ${place}`,
  ];
}
