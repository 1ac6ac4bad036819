import type { Command } from 'commander';
import type { UnknownWrite } from '../contract.js';
import type { AttentionItem } from '../starter.js';
import { EXIT } from './exit-codes.js';
import { print, printJson, tell, withSession } from './session.js';
import { fields, hint } from './text.js';

export function addAttention(program: Command): void {
  const command = program
    .command('attention')
    .description('list the running jobs that wait for a person: a write may or may not have reached the upstream')
    .option('--json', 'print one line of JSON for each, to which "resolve --from" takes an action')
    .action(({ json }: { json?: boolean }) =>
      withSession(command, async ({ jobs, globals, signal }) => {
        let count = 0;
        for await (const item of jobs.needsAttention({ signal })) {
          count += 1;
          if (item.problem !== undefined) {
            tell(`agent-jobs: ${item.workflowId} could not be read: ${item.problem}`);
            process.exitCode = EXIT.error;
          } else if (json) printJson(toLine(item));
          else print(`${describe(item, hint(globals, ['resolve', item.workflowId, choicesOf(item.unknown)]))}\n`);
        }
        if (count === 0 && !json) print('nothing needs attention');
      }),
    );
}

function toLine({ workflowId, projectId, jobId, unknown }: AttentionItem) {
  return { workflowId, projectId, jobId, ...unknown };
}

function describe({ workflowId, projectId, jobId, unknown }: AttentionItem, settle: string): string {
  return fields([
    ['Workflow', workflowId],
    ['Project', projectId],
    ['Job', jobId],
    ['Unknown', unknown?.kind],
    ['Follow-up id', unknown?.followUpId],
    ['Reason', unknown?.reason],
    ['Since', unknown?.since],
    [
      'Check upstream',
      unknown?.kind === 'create' ? 'is there a job with this prompt?' : 'does the job show this message?',
    ],
    ['Settle with', settle],
  ]);
}

/** The actions that may settle it; the first one fits where the upstream took the write, `retry` where it did not. */
export function choicesOf(unknown: Pick<UnknownWrite, 'kind'> | null): string {
  return unknown?.kind === 'create' ? 'adopt|retry|abandon' : 'delivered|retry|abandon';
}
