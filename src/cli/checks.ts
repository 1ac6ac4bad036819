/** The checks that `doctor` and `setup` share, and how what a check found is shown. */
import type { Client } from '@temporalio/client';
import type { wrongSearchAttributes } from '../temporal/search-attributes.js';
import { print, printJson } from './session.js';
import { countOf, printable } from './show.js';

/** For what one check asks of Temporal, or of the upstream: their errors say more than that of the check's limit. */
export const CALL_LIMIT_MS = 6_000;

/** What a check found; `skip`: it was not asked for, or another check failed first. */
export interface Finding {
  status: 'ok' | 'warn' | 'fail' | 'skip';
  text: string;
  /** What to do: each line is a sentence or a command. */
  remedy?: readonly string[];
  /** Temporal does not answer. */
  isOutage?: boolean;
}

/** A key should outlive any retry of its caller. */
const SHORTEST_RETENTION_DAYS = 30;
const DAY_SECONDS = 86_400;

/** Whether the server answers and has the namespace, and how long that keeps closed jobs and with them their keys. */
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
  if (days >= SHORTEST_RETENTION_DAYS) return { status: 'ok', text };
  const why = `below ${SHORTEST_RETENTION_DAYS} days; a key that comes later makes a second job. Raise it with:`;
  const raise = `temporal operator namespace update --namespace "${namespace}" --retention ${SHORTEST_RETENTION_DAYS}d`;
  return { status: 'warn', text, remedy: [why, indented(raise)] };
}

/** Jobs can't set a search attribute of another type, or can't be found by it; null where all are right. */
export async function checkTypes(client: Client): Promise<Finding | null> {
  const { removalCommands, wrongSearchAttributes: wrongOf } = await import('../temporal/search-attributes.js');
  const { namespace } = client.options;
  const wrong = await wrongOf(operatorOf(client), namespace);
  if (wrong.length === 0) return null;
  const told = wrong.map(({ name, type }) => `${name} is ${type}`).join(', ');
  const names = wrong.map(({ name }) => name);
  const { selfHosted, cloud } = removalCommands(namespace, names);
  return {
    status: 'fail',
    text: `search attributes of namespace "${namespace}" are of another type than jobs set: ${told}`,
    remedy: [
      'Jobs are not found by them. Put them away, then run "agent-jobs setup" again. On a server of your own:',
      ...selfHosted.map(indented),
      'on Temporal Cloud:',
      ...cloud.map(indented),
    ],
  };
}

/** A command below the line that says what it is for. */
export function indented(line: string): string {
  return `  ${line}`;
}

/** The client's connection type leaves the operator service out; every real Connection has it. */
export function operatorOf({ connection }: Client): Parameters<typeof wrongSearchAttributes>[0] {
  return connection as unknown as Parameters<typeof wrongSearchAttributes>[0];
}

/** Whether the upstream answers and takes the key. A key that works may still lie open. */
export async function checkUpstreamAndKey(project: string | undefined): Promise<Finding> {
  const { checkUpstream } = await import('../worker/upstream-check.js');
  const { readUpstreamConfig, upstreamWarnings } = await import('../config.js');
  const { finding, text } = await checkUpstream(project, CALL_LIMIT_MS);
  if (finding !== 'answers') return { status: finding === 'notAsked' ? 'skip' : 'fail', text };
  const remedy = upstreamWarnings(readUpstreamConfig());
  return { status: remedy.length === 0 ? 'ok' : 'warn', text: `${text}, and takes the key`, remedy };
}

const NAME_WIDTH = 18;

/** Prints what a check found, and below it what to do. */
export function printFinding(name: string, { status, text, remedy = [] }: Finding, isJson: boolean): void {
  if (isJson) return printJson({ check: name, status, text, remedy });
  const [first = '', ...more] = text.split('\n');
  const below = [...more, ...remedy.map((line) => `→ ${line}`)];
  const lines = below.map((line) => ' '.repeat(NAME_WIDTH + 7) + printable(line));
  print([`${status.padEnd(4)}  ${name.padEnd(NAME_WIDTH)} ${printable(first)}`, ...lines].join('\n'));
}
