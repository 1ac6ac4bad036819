import type { Command } from 'commander';
import type { UnknownWrite } from '../contract.js';
import type { AttentionItem } from '../starter.js';
import { EXIT } from './exit-codes.js';
import { print, printJson, tell, withSession, type GlobalOptions } from './session.js';
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
          else print(`${describe(item, globals)}\n`);
        }
        if (count === 0 && !json) print('nothing needs attention');
      }),
    );
}

function toLine({ workflowId, projectId, jobId, unknown }: AttentionItem) {
  return { workflowId, projectId, jobId, ...unknown };
}

function describe({ workflowId, projectId, jobId, unknown }: AttentionItem, globals: GlobalOptions): string {
  return fields([
    ['Workflow', workflowId],
    ['Project', projectId],
    ['Job', jobId],
    ['Unknown', unknown?.kind],
    ['Follow-up id', unknown?.followUpId],
    ['Reason', unknown?.reason],
    ['Since', unknown?.since],
    ['Look after', unknown?.lookAfter],
    [
      'Check upstream',
      unknown?.kind === 'create' ? 'is there a job with this prompt?' : 'does the job show this message?',
    ],
    ...settlingCommands(workflowId, unknown, globals),
  ]);
}

/** The commands that may settle a write, each with the case that it fits; they name the very unknown that was shown. */
export function settlingCommands(
  workflowId: string,
  unknown: UnknownWrite | null,
  globals: GlobalOptions,
): [label: string, command: string][] {
  if (!unknown) return [];
  const arrived = unknown.kind === 'create' ? ['adopt', '--job-id', 'ID_OF_THE_JOB'] : ['delivered'];
  const command = (...action: string[]) => hint(globals, ['resolve', workflowId, ...action, '--since', unknown.since]);
  return [
    ['If it is there', command(...arrived)],
    ['If it is not', command('retry')],
    ['To give it up', command('abandon')],
  ];
}
