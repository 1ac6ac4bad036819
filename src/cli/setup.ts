/** `setup` prepares a namespace, and shows what each step found. */
import type { Client } from '@temporalio/client';
import type { Command } from 'commander';
import { listUrl, type WebUi, webUiViews } from '../client/web-ui.js';
import type { AgentJobs } from '../starter.js';
import { checkNamespace, checkSearchAttributes, type Finding, indented, type Named } from './checks.js';
import { operatorOf, printFindings } from './checks.js';
import { withSession } from './session.js';

/** Adds `setup`, which prepares a namespace. */
export function addSetup(program: Command): void {
  const command = program
    .command('setup')
    .description('prepare a namespace once: register its search attributes')
    .option('--json', 'print one line of JSON for each step, as doctor does for its checks')
    .action(({ json }: { json?: boolean }) => withSession(command, ({ jobs }) => printFindings(steps(jobs), json)));
}

async function* steps({ client, webUi }: AgentJobs): AsyncGenerator<Named> {
  // Only the description of the namespace tells that it is there.
  yield ['Temporal', await checkNamespace(client)];
  yield ['Search attributes', await registerSearchAttributes(client)];
  yield ['Web UI', linksOf(webUi)];
}

/** The links that an operator keeps; those of a day name the present one. */
function linksOf(webUi: WebUi | null): Finding {
  if (webUi === null) return { status: 'skip', text: 'not known: AGENT_JOBS_WEB_UI_URL names it' };
  const views = webUiViews(webUi).flatMap(({ title, url }) => [`  ${title}`, `    ${url}`]);
  return { status: 'ok', text: [listUrl(webUi), ...views].join('\n') };
}

async function registerSearchAttributes(client: Client): Promise<Finding> {
  const { ensureSearchAttributes, SearchAttributesRefusedError } = await import('../temporal/search-attributes.js');
  try {
    const added = await ensureSearchAttributes(operatorOf(client), client.options.namespace);
    const found = await checkSearchAttributes(client);
    return found.status === 'ok' && added.length > 0 ? { status: 'ok', text: `registered ${added.join(', ')}` } : found;
  } catch (error) {
    if (!(error instanceof SearchAttributesRefusedError)) throw error;
    if (error.isFull) return { status: 'fail', text: error.message, remedy: MAKE_ROOM };
    const { selfHosted, cloud } = error.commands;
    const remedy = ['A person with the rights must run, on a server of your own:', ...selfHosted.map(indented)];
    return { status: 'fail', text: error.message, remedy: [...remedy, 'on Temporal Cloud:', indented(cloud)] };
  }
}

const MAKE_ROOM = [
  'The namespace has no room for them. Remove search attributes that nothing uses, then run "agent-jobs setup" again:',
  indented('temporal operator search-attribute remove --namespace NAMESPACE --name NAME'),
  'Or give the jobs a namespace of their own:',
  indented('temporal operator namespace create --namespace agent-jobs --retention 30d'),
  indented('TEMPORAL_NAMESPACE=agent-jobs npx agent-jobs setup'),
];
