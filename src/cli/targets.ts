/** How a command names one job: by its workflow id, or by `--project` and `--key`. */
import type { Command } from 'commander';
import type { JobName } from '../client/settings.js';
import { UsageError } from './exit.js';

/** The flags of `addJobName`. */
export interface JobNameFlags {
  project?: string;
  key?: string;
}

/** Adds the argument and the flags that name a job. */
export function addJobName(command: Command): Command {
  return command
    .argument('[job]', 'its workflow id; none with --project and --key')
    .option('--project <id>', 'with --key: the project of the job')
    .option('--key <key>', 'with --project: the key that the job was started under');
}

/**
 * The job that a command names, and the words that are left of its arguments: at most so many `others`. Throws a
 * UsageError.
 */
export function readJobName(
  words: readonly string[],
  { project: projectId, key }: JobNameFlags,
  others = 0,
): [name: JobName, ...rest: string[]] {
  if (projectId === undefined && key === undefined) {
    const [workflowId, ...rest] = words;
    if (workflowId === undefined) throw new UsageError('name a job by its workflow id, or by --project and --key');
    return [workflowId, ...rest];
  }
  if (projectId === undefined || key === undefined) throw new UsageError('--project and --key name a job together');
  if (words.length > others) throw new UsageError('give a workflow id, or --project and --key, not both');
  return [{ projectId, key }, ...words];
}
