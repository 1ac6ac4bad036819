/** `setup` prepares a namespace, and tells step by step what it found and did. */
import type { Command } from 'commander';
import type { Client } from '@temporalio/client';
import type { WebUi } from '../client/web-ui.js';
import { checkRetention, checkTypes, type Finding, indented, operatorOf } from './doctor-checks.js';
import { EXIT } from './exit.js';
import { print, printJson, printToStderr, withSession } from './session.js';

const NAME_WIDTH = 18;

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
      withSession(command, async ({ jobs: { client, webUi } }) => {
        for await (const [name, finding] of steps(client, webUi, project)) {
          if (isJson)
            printJson({ check: name, status: finding.status, text: finding.text, remedy: finding.remedy ?? [] });
          else tell(name, finding);
          if (finding.status === 'fail') process.exitCode = EXIT.error;
        }
      }),
    );
}

type Step = [name: string, finding: Finding];

async function* steps(client: Client, webUi: WebUi | null, project: string | undefined): AsyncGenerator<Step> {
  // Only the description of the namespace tells that it is there.
  const retention = await checkRetention(client);
  yield ['Temporal', { status: 'ok', text: `answers, namespace "${client.options.namespace}"` }];
  yield ['Retention', retention];
  const registered = await registerSearchAttributes(client);
  yield ['Search attributes', registered];
  const wrong = registered.status === 'ok' ? await checkTypes(client) : null;
  if (wrong) yield ['Search attributes', wrong];
  const { checkUpstream } = await import('../worker/upstream-check.js');
  const { finding, isWrong, text } = await checkUpstream(project);
  yield ['Upstream', { status: isWrong ? 'fail' : finding === 'notAsked' ? 'skip' : 'ok', text }];
  yield ['Web UI', await dashboardOf(webUi)];
}

/** The answer goes to stdout, and what to do about it to stderr. */
function tell(name: string, { status, text, remedy = [] }: Finding): void {
  const [first, ...more] = remedy;
  const isError = status === 'fail' && first !== undefined;
  if (isError) printToStderr(`agent-jobs: ${text}`);
  else print(`${name.padEnd(NAME_WIDTH)} ${text}`);
  if (first !== undefined) printToStderr(isError ? first : `agent-jobs: ${first}`);
  for (const line of more) printToStderr(line);
}

/** The links that an operator keeps; those of a day name the present one. */
async function dashboardOf(webUi: WebUi | null): Promise<Finding> {
  if (webUi === null) return { status: 'skip', text: 'not known; set AGENT_JOBS_WEB_UI_URL to have the links to it' };
  const { listUrl, webUiViews } = await import('../client/web-ui.js');
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
    const { selfHosted, cloud } = error.commands;
    const remedy = ['Somebody with the rights must run, on a server of your own:', ...selfHosted.map(indented)];
    return { status: 'fail', text: error.message, remedy: [...remedy, 'on Temporal Cloud:', indented(cloud)] };
  }
}
