/**
 * `setup`, which prepares a namespace, and the checks that it shares with `doctor`: what each found, and how that is
 * shown.
 */
import type { Client } from '@temporalio/client';
import type { Command } from 'commander';
import { attributeType } from '../contract/agent-job.js';
import { listUrl, type WebUi, webUiViews } from '../client/web-ui.js';
import type { AgentJobs } from '../starter.js';
import type { Connected } from '../temporal/search-attributes.js';
import { CommandError } from './exit.js';
import { print, printJson, withSession } from './session.js';
import { countOf, printable } from './show.js';

/** Adds `setup`, which prepares a namespace. */
export function addSetup(program: Command): void {
  const command = program
    .command('setup')
    .description('prepare a namespace once: register its search attributes')
    .option('--json', 'print one line of JSON for each step, as doctor does for its checks')
    .action(({ json }: { json?: boolean }) => withSession(command, ({ jobs }) => printFindings(steps(jobs), json)));
}

async function* steps({ client, webUi }: AgentJobs): AsyncGenerator<Named> {
  // Only the description of the namespace shows that it is there.
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

/** What a check found; `skip`: it was not asked for, or another check failed first. */
export interface Finding {
  status: 'ok' | 'warn' | 'fail' | 'skip';
  text: string;
  /** What to do: each line is a sentence or a command. */
  remedy?: readonly string[];
  error?: Error;
}

type Named = readonly [name: string, finding: Finding];

/** Prints the findings as they come; throws at the end if one is a failure. */
export async function printFindings(findings: AsyncIterable<Named>, isJson = false): Promise<void> {
  const failed: Finding[] = [];
  for await (const [name, { error, ...finding }] of findings) {
    printFinding(name, finding, isJson);
    if (finding.status === 'fail') failed.push({ ...finding, ...(error && { error }) });
  }
  const outage = failed.find(({ error }) => error?.name === 'TemporalUnavailableError');
  if (outage) throw outage.error!;
  if (failed.length > 0) throw new CommandError('error', `not all is well: ${countOf(failed.length, 'failure')}`);
}

const NAME_WIDTH = 18;

function printFinding(name: string, { status, text, remedy = [] }: Finding, isJson: boolean): void {
  if (isJson) return printJson({ check: name, status, text, remedy });
  const [first = '', ...more] = text.split('\n');
  const below = [...more, ...remedy.map((line) => `→ ${line}`)];
  const lines = below.map((line) => ' '.repeat(NAME_WIDTH + 7) + printable(line));
  print([`${status.padEnd(4)}  ${name.padEnd(NAME_WIDTH)} ${printable(first)}`, ...lines].join('\n'));
}

/** A key should outlive any retry of its caller. */
const MIN_RETENTION_DAYS = 30;
const DAY_SECONDS = 86_400;

/** Whether the server answers and has the namespace, and how long the namespace keeps closed jobs and their keys. */
export async function checkNamespace(client: Client): Promise<Finding> {
  const { temporalCall } = await import('../client/temporal-call.js');
  const { namespace } = client.options;
  const [{ config }, { serverVersion }] = await temporalCall(client, {}, () =>
    Promise.all([client.workflowService.describeNamespace({ namespace }), client.workflowService.getSystemInfo({})]),
  );
  const days = Math.round((Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0) / DAY_SECONDS) * 10) / 10;
  const version = serverVersion ? `, version ${serverVersion}` : '';
  const remembers = `a key is remembered for ${countOf(days, 'day')} after its job ended`;
  const text = `answers, namespace "${namespace}"${version}; ${remembers}`;
  if (days >= MIN_RETENTION_DAYS) return { status: 'ok', text };
  const why = `below ${MIN_RETENTION_DAYS} days; a key that comes later makes a second job. Raise it with:`;
  const raise = `temporal operator namespace update --namespace "${namespace}" --retention ${MIN_RETENTION_DAYS}d`;
  return { status: 'warn', text, remedy: [why, indented(raise)] };
}

/** Whether jobs can set all search attributes, and lists can find jobs by them. */
export async function checkSearchAttributes(client: Client): Promise<Finding> {
  const { missingSearchAttributes, mistypedSearchAttributes } = await import('../temporal/search-attributes.js');
  const { namespace } = client.options;
  const missing = await missingSearchAttributes(operatorOf(client), namespace);
  if (missing.length > 0) {
    const text = `namespace "${namespace}" lacks ${missing.join(', ')}`;
    return { status: 'fail', text, remedy: ['npx agent-jobs setup'] };
  }
  const mistyped = await mistypedSearchAttributes(operatorOf(client), namespace);
  if (Object.keys(mistyped).length > 0) return mistypedFinding(namespace, mistyped);
  return { status: 'ok', text: 'all are registered' };
}

/** Temporal changes no type of a search attribute. */
function mistypedFinding(namespace: string, mistyped: Record<string, string>): Finding {
  const names = Object.keys(mistyped);
  const text = `namespace "${namespace}" has ${names.map((name) => `${name} as ${mistyped[name]}`).join(', ')}`;
  const needed = names.map((name) => `${name} as ${attributeType(name)}`).join(', ');
  const flags = names.map((name) => `--name ${name}`).join(' ');
  const remedy = [
    `jobs need ${needed}. Remove what is there, if nothing else uses it, and register it again:`,
    indented(`temporal operator search-attribute remove --namespace "${namespace}" ${flags}`),
    indented('npx agent-jobs setup'),
    'Or give the jobs a namespace of their own.',
  ];
  return { status: 'fail', text, remedy };
}

/** A command below the line that says what it is for. */
function indented(line: string): string {
  return `  ${line}`;
}

/** The client's connection type leaves the operator service out; every real Connection has it. */
function operatorOf({ connection }: Client): Connected {
  return connection as unknown as Connected;
}
