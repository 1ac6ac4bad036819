/** `queue`: the queues of requests, and who waits in them. */
import type { Command } from 'commander';
import type { RequestQueueState } from '../contract.js';
import { CommandError } from './exit.js';
import { print, printAnswer, printToStderr, withSession } from './session.js';
import { countOf, printable, show, showRows } from './show.js';

/** Adds `queue`, which shows who waits for a turn to send. */
export function addQueue(program: Command): void {
  const command = program
    .command('queue')
    .description('show who waits for the upstream’s budget, and who is next')
    .option('--project <id>', 'of one project (default: all queues, and that of the exports)')
    .option('--json', 'print one line of JSON for each queue')
    .action(({ project: projectId, json }: { project?: string; json?: boolean }) =>
      withSession(command, async ({ jobs, signal }) => {
        let [shown, unread] = [0, 0];
        for await (const { workflowId, state, problem = '' } of jobs.queues({ projectId }, { signal })) {
          if (state) {
            shown += 1;
            printAnswer(json, { workflowId, ...state }, () => `${textOf(workflowId, state)}\n`);
          } else {
            unread += 1;
            printToStderr(printable(`agent-jobs: ${workflowId} could not be read: ${problem}`));
          }
        }
        if (unread > 0) throw new CommandError('error', `${countOf(unread, 'queue')} could not be read`);
        if (shown === 0 && !json) print('no queue');
      }),
    );
}

function textOf(workflowId: string, { waiting, ...queue }: RequestQueueState): string {
  const head = show({ workflowId, ...queue, perHour: queue.perHour ?? 'no budget is set' });
  if (waiting.length === 0) return head;
  const hidden = queue.waitingCount - waiting.length;
  const rest = hidden > 0 ? `\n… and ${hidden} more, each with its place in "agent-jobs state"` : '';
  return `${head}\n\n${showRows(waiting, ['position', 'priority', 'since', 'expectedAt', 'workflowId'])}${rest}`;
}
