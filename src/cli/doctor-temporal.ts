/** The checks of `doctor` and `setup` that ask Temporal. */
import type { Client } from '@temporalio/client';
import type { PolledFor } from '../client/pollers.js';
import type { wrongSearchAttributes } from '../temporal/search-attributes.js';
import type { Finding } from './doctor-check.js';

/** A key should outlive any retry of its caller. */
const SHORTEST_RETENTION_DAYS = 30;
const DAY_SECONDS = 86_400;

/** Whether the server answers, and has the namespace. */
export async function checkTemporal(client: Client): Promise<Finding> {
  const { namespace } = client.options;
  await client.workflowService.describeNamespace({ namespace });
  const { serverVersion } = await client.workflowService.getSystemInfo({});
  const version = serverVersion ? `, version ${serverVersion}` : '';
  return { status: 'ok', text: `answers${version}, namespace "${namespace}"` };
}

/** Without them no job makes progress, or can't be found. */
export async function checkSearchAttributes(client: Client): Promise<Finding> {
  const { missingSearchAttributes } = await import('../temporal/search-attributes.js');
  const { namespace } = client.options;
  const missing = await missingSearchAttributes(operatorOf(client), namespace);
  if (missing.length === 0) return (await checkTypes(client)) ?? { status: 'ok', text: 'all are registered' };
  const text = `namespace "${namespace}" lacks ${missing.join(', ')}`;
  return { status: 'fail', text, remedy: ['npx agent-jobs setup'] };
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

/** How long a namespace keeps closed jobs, and with them their keys. */
export async function checkRetention(client: Client): Promise<Finding> {
  const { temporalCall } = await import('../client/temporal-call.js');
  const { namespace } = client.options;
  const { config } = await temporalCall(client, {}, () => client.workflowService.describeNamespace({ namespace }));
  const seconds = Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0);
  const days = Math.round((seconds / DAY_SECONDS) * 10) / 10;
  const text = `a key is remembered for ${days} ${days === 1 ? 'day' : 'days'} after its job ended`;
  if (days >= SHORTEST_RETENTION_DAYS) return { status: 'ok', text };
  const why = `below ${SHORTEST_RETENTION_DAYS} days; a key that comes later makes a second job. Raise it with:`;
  const raise = `temporal operator namespace update --namespace "${namespace}" --retention ${SHORTEST_RETENTION_DAYS}d`;
  return { status: 'warn', text, remedy: [why, indented(raise)] };
}

/** Whether somebody serves the jobs. */
export async function checkJobWorker(client: Client, taskQueue: string): Promise<Finding> {
  const found = await checkPollers(client, taskQueue, ['workflow', 'activity']);
  if (found.status === 'ok') return found;
  return { ...found, remedy: [`start one: AGENT_JOBS_TASK_QUEUE=${taskQueue} npm run worker`] };
}

/** Whether somebody serves the exports, where they are asked for. */
export async function checkExportWorker(client: Client, taskQueue: string, isAsked: boolean): Promise<Finding> {
  const { exportTaskQueue } = await import('../contract.js');
  if (!isAsked) return { status: 'skip', text: 'not checked: --exports asks for it' };
  const found = await checkPollers(client, exportTaskQueue(taskQueue), ['activity']);
  return found.status === 'ok' ? found : { ...found, remedy: ['run a worker with SNAPSHOTS_URL set'] };
}

async function checkPollers(client: Client, taskQueue: string, work: readonly PolledFor[]): Promise<Finding> {
  const { livePollers } = await import('../client/pollers.js');
  const pollers = await Promise.all(work.map((polledFor) => livePollers(client, taskQueue, polledFor)));
  const queue = JSON.stringify(taskQueue);
  const missing = work.filter((_, index) => pollers[index]?.length === 0);
  if (missing.length === work.length) return { status: 'fail', text: `no worker polls the task queue ${queue}` };
  if (missing.length > 0) {
    return { status: 'fail', text: `workers poll the task queue ${queue}, none of them for its ${missing[0]} tasks` };
  }
  const names = [...new Set(pollers.flat().map(({ identity }) => identity))];
  const shown = names.length > 3 ? `${names.slice(0, 3).join(', ')} and ${names.length - 3} more` : names.join(', ');
  const count = names.length === 1 ? '1 worker polls' : `${names.length} workers poll`;
  return { status: 'ok', text: `${count} the task queue ${queue}: ${shown}` };
}
