/** The programs that the command line can become: a worker, and everything on this machine. */
import type { Command } from 'commander';
import { UsageError } from './exit.js';

/** `agent-jobs worker` and `agent-jobs dev`: the same as `npm run worker` and `npm start` of the repository. */
export function addPrograms(program: Command): void {
  program
    .command('worker')
    .description('run a worker; its settings are environment variables, and it ends on SIGTERM')
    .action(async (_, command: Command) => {
      refuseServerOptions(command, 'the worker reads TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE and AGENT_JOBS_TASK_QUEUE');
      await import('../worker.js');
    });
  program
    .command('dev')
    .description(
      'run a Temporal server with its web UI, a worker, a sandbox upstream and a job to watch, on this machine',
    )
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
