/** `setup` prepares a namespace, and shows what each step found. */
import type { Client } from '@temporalio/client';
import type { Command } from 'commander';
import { listUrl, type WebUi, webUiViews } from '../client/web-ui.js';
import type { AgentJobs } from '../starter.js';
import type { SearchAttributesRefusedError } from '../temporal/search-attributes.js';
import {
  checkNamespace,
  checkTypes,
  checkUpstreamAndKey,
  type Finding,
  indented,
  operatorOf,
  printFinding,
} from './checks.js';
import { EXIT } from './exit.js';
import { withSession } from './session.js';

interface SetupFlags {
  project?: string;
  json?: boolean;
}

/** Adds `setup`, which prepares a namespace. */
export function addSetup(program: Command): void {
  const command = program
    .command('setup')
    .description('prepare a namespace once: register its search attributes')
    .option('--project <id>', 'ask the upstream about this project, so that its key is checked too')
    .option('--json', 'print one line of JSON for each step, as doctor does for its checks')
    .action(({ project, json: isJson = false }: SetupFlags) =>
      withSession(command, async ({ jobs }) => {
        for await (const [name, finding] of steps(jobs, project)) {
          printFinding(name, finding, isJson);
          if (finding.status === 'fail') process.exitCode = EXIT.error;
        }
      }),
    );
}

async function* steps(
  { client, webUi }: AgentJobs,
  project: string | undefined,
): AsyncGenerator<[name: string, finding: Finding]> {
  // Only the description of the namespace tells that it is there.
  yield ['Temporal', await checkNamespace(client)];
  const registered = await registerSearchAttributes(client);
  yield ['Search attributes', registered];
  const wrong = registered.status === 'ok' ? await checkTypes(client) : null;
  if (wrong) yield ['Search attributes', wrong];
  yield ['Upstream', await checkUpstreamAndKey(project)];
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
    return { status: 'ok', text: added.length === 0 ? 'were registered already' : `registered ${added.join(', ')}` };
  } catch (error) {
    if (!(error instanceof SearchAttributesRefusedError)) throw error;
    if (error.full !== null) return { status: 'fail', text: error.message, remedy: await roomFor(client, error.full) };
    const { selfHosted, cloud } = error.commands;
    const remedy = ['Somebody with the rights must run, on a server of your own:', ...selfHosted.map(indented)];
    return { status: 'fail', text: error.message, remedy: [...remedy, 'on Temporal Cloud:', indented(cloud)] };
  }
}

/** How a namespace without room for the search attributes gets some. */
async function roomFor(
  { options: { namespace } }: Client,
  { type, most, others }: NonNullable<SearchAttributesRefusedError['full']>,
): Promise<string[]> {
  const { countOfType, removalCommands } = await import('../temporal/search-attributes.js');
  const tooMany = others.length + countOfType(type) - most;
  return [
    `Remove ${tooMany} of them that nothing uses, then run "agent-jobs setup" again:`,
    ...removalCommands(namespace, others).selfHosted.map(indented),
    'Or give the jobs a namespace of their own:',
    indented('temporal operator namespace create --namespace agent-jobs --retention 30d'),
    indented('TEMPORAL_NAMESPACE=agent-jobs npx agent-jobs setup'),
  ];
}
