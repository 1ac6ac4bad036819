/** How long a namespace keeps closed jobs, and with them their keys. */
import type { Client } from '@temporalio/client';
import type { Finding } from './doctor-check.js';

/** A key should outlive any retry of its caller. */
export const SHORTEST_RETENTION_DAYS = 30;
const DAY_SECONDS = 86_400;

/** In days, to a tenth. */
export async function readRetentionDays(client: Client): Promise<number> {
  const { temporalCall } = await import('../client/temporal-call.js');
  const { namespace } = client.options;
  const { config } = await temporalCall(client, {}, () => client.workflowService.describeNamespace({ namespace }));
  const days = Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0) / DAY_SECONDS;
  return Math.round(days * 10) / 10;
}

/** What raises it, with Temporal's own tool. */
export function retentionCommand(namespace: string): string {
  return `temporal operator namespace update --namespace "${namespace}" --retention ${SHORTEST_RETENTION_DAYS}d`;
}

/** What the number of days means. */
export function retentionText(days: number): string {
  return `a key is remembered for ${days} ${days === 1 ? 'day' : 'days'} after its job ended`;
}

/** How long it is, and how to raise it where it is short. */
export async function retentionFinding(client: Client): Promise<Finding> {
  const days = await readRetentionDays(client);
  const text = retentionText(days);
  if (days >= SHORTEST_RETENTION_DAYS) return { status: 'ok', text };
  const why = `below ${SHORTEST_RETENTION_DAYS} days; a key that comes later makes a second job. Raise it with:`;
  return { status: 'warn', text, remedy: [why, `  ${retentionCommand(client.options.namespace)}`] };
}
