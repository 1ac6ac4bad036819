/** `webhooks resend`: sends again what receivers did not take. */
import type { Command } from 'commander';
import { UsageError } from './exit.js';
import { print, printAnswer, withSession } from './session.js';
import { printable } from './table.js';

interface ResendFlags {
  all?: boolean;
  json?: boolean;
}

/** Adds `webhooks`. */
export function addWebhooks(program: Command): void {
  const group = program
    .command('webhooks')
    .description('send webhooks again that were given up ("attention" lists them)');
  const command = group
    .command('resend')
    .description('begin deliveries anew, with the same webhook-id and body')
    .argument('[deliveries...]', 'the workflow ids of deliveries, whatever became of them')
    .option('--all', 'all that were given up')
    .option('--json', 'print one line of JSON for each')
    .action((deliveries: string[], flags: ResendFlags) => resend(command, deliveries, flags));
}

async function resend(command: Command, deliveries: string[], { all = false, json }: ResendFlags): Promise<void> {
  if (all === deliveries.length > 0) throw new UsageError('name the deliveries, or give --all');
  const { listUndelivered, resendWebhook } = await import('../client/webhooks.js');
  await withSession(command, async ({ jobs: { client }, signal }) => {
    const ids = [...deliveries];
    // Read first: what is sent again may be given up while the list is read.
    if (all) for await (const { workflowId } of listUndelivered(client, { signal })) ids.push(workflowId);
    for (const workflowId of ids) {
      await resendWebhook(client, workflowId, { signal });
      printAnswer(json, { workflowId, isResent: true }, () => printable(`${workflowId} is sent again`));
    }
    if (ids.length === 0 && json !== true) print('no delivery was given up');
  });
}
