import type { Command } from 'commander';
import { print, withSession } from './session.js';

export function addSignals(program: Command): void {
  const pollNow = program
    .command('poll-now')
    .description('read a job from the upstream at once')
    .argument('<workflow-id>', 'the job')
    .action((workflowId: string) =>
      withSession(pollNow, async ({ jobs, signal }) => {
        await jobs.handle(workflowId).pollNow({ signal });
        print(`${workflowId} will be read now`);
      }),
    );
  const cancel = program
    .command('cancel')
    .description('end a job’s workflow; the remote job goes on, for the upstream can not cancel')
    .argument('<workflow-id>', 'the job')
    .action((workflowId: string) =>
      withSession(cancel, async ({ jobs, signal }) => {
        await jobs.handle(workflowId).cancel({ signal });
        print(`${workflowId} is asked to end, unless it has ended already; a write in flight is finished first`);
      }),
    );
}
