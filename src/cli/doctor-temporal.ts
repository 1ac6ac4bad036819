/** The checks of `doctor` that ask Temporal. */
import type { Client } from '@temporalio/client';
import type { PolledFor } from '../client/pollers.js';
import type { removalCommands } from '../temporal/search-attributes.js';
import type { Finding } from './doctor-check.js';
import { SHORTEST_RETENTION_DAYS, readRetentionDays, retentionCommand, retentionText } from './retention.js';

/** Below it, a round trip and the server's own work explain a difference of clocks. */
const CLOCK_TOLERANCE_MS = 2_000;

/** Whether the server answers, and has the namespace. */
export async function checkTemporal(client: Client): Promise<Finding> {
  const { namespace } = client.options;
  const startedAt = performance.now();
  await client.workflowService.describeNamespace({ namespace });
  const tookMs = Math.max(1, Math.round(performance.now() - startedAt));
  const { serverVersion } = await client.workflowService.getSystemInfo({});
  const version = serverVersion ? `, version ${serverVersion}` : '';
  return { status: 'ok', text: `answers in ${tookMs} ms${version}, namespace "${namespace}"` };
}

/** Without them no job makes progress, or can't be found. */
export async function checkSearchAttributes(client: Client): Promise<Finding> {
  const { missingSearchAttributes, removalCommands, wrongSearchAttributes } =
    await import('../temporal/search-attributes.js');
  const { namespace } = client.options;
  const operator = client.connection as unknown as Parameters<typeof wrongSearchAttributes>[0];
  const missing = await missingSearchAttributes(operator, namespace);
  if (missing.length > 0) {
    const text = `namespace "${namespace}" lacks ${missing.join(', ')}`;
    return { status: 'fail', text, remedy: ['npx agent-jobs setup'] };
  }
  const wrong = await wrongSearchAttributes(operator, namespace);
  if (wrong.length === 0) return { status: 'ok', text: 'all are registered' };
  const text = `of another type than they should be: ${wrong.map(({ name, type }) => `${name} is ${type}`).join(', ')}`;
  const commands = removalCommands(
    namespace,
    wrong.map(({ name }) => name),
  );
  return { status: 'fail', text, remedy: removalRemedy(commands) };
}

function removalRemedy({ selfHosted, cloud }: ReturnType<typeof removalCommands>): string[] {
  return [
    'put them away on a server of your own:',
    ...selfHosted,
    'or on Temporal Cloud:',
    ...cloud,
    'then register them: npx agent-jobs setup',
  ];
}

/** How long a key is remembered. */
export async function checkRetention(client: Client): Promise<Finding> {
  const days = await readRetentionDays(client);
  const text = retentionText(days);
  if (days >= SHORTEST_RETENTION_DAYS) return { status: 'ok', text };
  return {
    status: 'warn',
    text: `${text}: one that comes later makes a second job`,
    remedy: [retentionCommand(client.options.namespace)],
  };
}

/** Whether this machine's clock agrees with the server's. */
export async function checkClock(client: Client, signal: AbortSignal): Promise<Finding> {
  const { clockDifference, readServerClock } = await import('../client/server-clock.js');
  const reading = await readServerClock(client, signal).catch((error: unknown) => error as Error);
  if (reading instanceof Error) {
    return { status: 'skip', text: `not checked: the server does not tell its time (${reading.message})` };
  }
  return clockFinding(clockDifference(reading));
}

/** What a difference means; above 0 the server is ahead. */
export function clockFinding(differenceMs: number): Finding {
  const seconds = (Math.abs(differenceMs) / 1_000).toFixed(1);
  if (Math.abs(differenceMs) <= CLOCK_TOLERANCE_MS) return { status: 'ok', text: 'agrees with that of the server' };
  const text = `this machine is ${seconds} s ${differenceMs > 0 ? 'behind' : 'ahead of'} the server`;
  return { status: 'warn', text, remedy: ['set the clock by NTP on the machine that is wrong'] };
}

/** Whether somebody serves the jobs. */
export async function checkJobWorker(client: Client, taskQueue: string): Promise<Finding> {
  const found = await checkPollers(client, taskQueue, ['workflow', 'activity']);
  if (found.status === 'ok') return found;
  const remedy = [
    `start one with the same address and namespace: AGENT_JOBS_TASK_QUEUE=${taskQueue} npm run worker`,
    'or name the queue on which workers listen: --task-queue or AGENT_JOBS_TASK_QUEUE',
  ];
  return { ...found, remedy };
}

/** Whether somebody serves the exports. Where they are not asked for, and no store is named, nobody misses them. */
export async function checkExportWorker(
  client: Client,
  taskQueue: string,
  { isAsked, snapshots }: { isAsked: boolean; snapshots?: string },
): Promise<Finding> {
  const { exportTaskQueue } = await import('../contract.js');
  const { processEnvironment } = await import('../config.js');
  if (!isAsked && !(snapshots ?? processEnvironment['SNAPSHOTS_URL'])) {
    return { status: 'skip', text: 'not checked: --exports asks for it' };
  }
  const found = await checkPollers(client, exportTaskQueue(taskQueue), ['activity']);
  if (found.status === 'ok') return found;
  const remedy = ['run a worker with SNAPSHOTS_URL set, and "exports" among its WORKER_ROLES where that is set'];
  return { ...found, status: isAsked ? 'fail' : 'warn', remedy };
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
  const newest = Math.max(0, Math.round((Date.now() - (pollers[0]?.[0]?.polledAt ?? 0)) / 1_000));
  const names = [...new Set(pollers.flat().map(({ identity }) => identity))];
  const shown = names.length > 3 ? `${names.slice(0, 3).join(', ')} and ${names.length - 3} more` : names.join(', ');
  const count = names.length === 1 ? '1 worker polls' : `${names.length} workers poll`;
  return { status: 'ok', text: `${count} the task queue ${queue}, last ${newest} s ago: ${shown}` };
}
