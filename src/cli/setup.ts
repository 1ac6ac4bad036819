import type { Command } from 'commander';
import type { Client } from '@temporalio/client';
import type { WebUi } from '../client/web-ui.js';
import type { wrongSearchAttributes } from '../temporal/search-attributes.js';
import { EXIT } from './exit.js';
import { showRetention } from './retention.js';
import { print, printToStderr, withSession } from './session.js';

/** Adds `setup`, which prepares a namespace. */
export function addSetup(program: Command): void {
  const command = program
    .command('setup')
    .description('prepare a namespace once: register the search attributes, check Temporal and the upstream')
    .option('--project <id>', 'ask the upstream about this project, so that its key is checked too')
    .action(({ project }: { project?: string }) =>
      withSession(command, async ({ jobs: { client, webUi } }) => {
        print(`Temporal           answers, namespace "${client.options.namespace}"`);
        await showRetention(client);
        const isRegistered = (await registerSearchAttributes(client)) && (await checkTypes(client));
        const { checkUpstream } = await import('../worker/upstream-check.js');
        const upstream = await checkUpstream(project);
        print(`Upstream           ${upstream.text}`);
        await showDashboard(webUi);
        if (!isRegistered || upstream.isWrong) process.exitCode = EXIT.error;
      }),
    );
}

/** The links that an operator keeps; those of a day name the present one. */
async function showDashboard(webUi: WebUi | null): Promise<void> {
  if (webUi === null) return print('Web UI             not known; set AGENT_JOBS_WEB_UI_URL to have the links to it');
  const { listUrl, webUiViews } = await import('../client/web-ui.js');
  print(`Web UI             ${listUrl(webUi)}`);
  for (const { title, url } of webUiViews(webUi)) print(`  ${title}\n    ${url}`);
}

/** Jobs can't set an attribute of another type, or can't be found by it. */
async function checkTypes(client: Client): Promise<boolean> {
  const { removalCommands, wrongSearchAttributes: wrongOf } = await import('../temporal/search-attributes.js');
  const { namespace } = client.options;
  const wrong = await wrongOf(operatorOf(client), namespace);
  if (wrong.length === 0) return true;
  const told = wrong.map(({ name, type }) => `${name} is ${type}`).join(', ');
  printToStderr(`agent-jobs: search attributes of namespace "${namespace}" are of another type than jobs set: ${told}`);
  const { selfHosted, cloud } = removalCommands(
    namespace,
    wrong.map(({ name }) => name),
  );
  printToStderr(
    'Jobs are not found by them. Put them away, then run "agent-jobs setup" again. On a server of your own:',
  );
  for (const line of selfHosted) printToStderr(`  ${line}`);
  printToStderr('on Temporal Cloud:');
  for (const line of cloud) printToStderr(`  ${line}`);
  return false;
}

/** The client's connection type leaves the operator service out; every real Connection has it. */
function operatorOf({ connection }: Client): Parameters<typeof wrongSearchAttributes>[0] {
  return connection as unknown as Parameters<typeof wrongSearchAttributes>[0];
}

async function registerSearchAttributes(client: Client): Promise<boolean> {
  const { ensureSearchAttributes, SearchAttributesRefusedError } = await import('../temporal/search-attributes.js');
  try {
    const added = await ensureSearchAttributes(operatorOf(client), client.options.namespace);
    print(`Search attributes  ${added.length === 0 ? 'were registered already' : `registered ${added.join(', ')}`}`);
    return true;
  } catch (error) {
    if (!(error instanceof SearchAttributesRefusedError)) throw error;
    const { selfHosted, cloud } = error.commands;
    printToStderr(`agent-jobs: ${error.message}\nSomebody with the rights must run, on a server of your own:`);
    for (const line of selfHosted) printToStderr(`  ${line}`);
    printToStderr(`on Temporal Cloud:\n  ${cloud}`);
    return false;
  }
}
