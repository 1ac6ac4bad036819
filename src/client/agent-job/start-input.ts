/** What a job was started with, from its memo and the first event of its history. */
import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { inputHash } from '../../agent-job/input.js';
import type { AgentJobInput } from '../../contract.js';
import { isNotFound } from '../temporal-errors.js';
import type { RunRecord } from './run-record.js';

/**
 * Reads the hash that says which job a run is for: from its memo, else computed from its first start event. Null where
 * neither is left.
 */
export async function readInputHash(client: Client, run: RunRecord): Promise<string | null> {
  if (run.memoInputHash !== null) return run.memoInputHash;
  const input = await readStartInput(client, run.workflowId, run.firstRunId);
  return input === null ? null : inputHash(input);
}

/** Reads the input in a run's start event; null where Temporal no longer keeps it or it is no JSON object. */
export async function readStartInput(client: Client, workflowId: string, runId: string): Promise<AgentJobInput | null> {
  const page = await readFirstEvents(client, { workflowId, runId }, 1);
  return page && (await decodeFirst<AgentJobInput>(client, startOf(page)?.input?.payloads));
}

/** A longer history without a workflow task has dozens of messages to a workflow that no worker ran. */
const MAX_UNBEGUN_EVENTS = 100;

/**
 * Reads the input of a closed run whose first workflow task was never done, so that it did nothing at all; else null.
 */
export async function readUnbegunInput(
  client: Client,
  workflowId: string,
  runId: string,
): Promise<AgentJobInput | null> {
  const page = await readFirstEvents(client, { workflowId, runId }, MAX_UNBEGUN_EVENTS);
  if (page === null || page.nextPageToken.length > 0) return null;
  // A run that continues another has its state in the other's last event.
  if (startOf(page)?.continuedExecutionRunId) return null;
  const hasBegun = page.history?.events?.some((event) => event.workflowTaskCompletedEventAttributes) ?? true;
  return hasBegun ? null : await decodeFirst<AgentJobInput>(client, startOf(page)?.input?.payloads);
}

type HistoryPage = Awaited<ReturnType<Client['workflowService']['getWorkflowExecutionHistory']>>;

function startOf({ history }: HistoryPage) {
  return history?.events?.[0]?.workflowExecutionStartedEventAttributes;
}

async function readFirstEvents(
  client: Client,
  execution: { workflowId: string; runId: string },
  maximumPageSize: number,
): Promise<HistoryPage | null> {
  const { namespace } = client.options;
  try {
    return await client.workflowService.getWorkflowExecutionHistory({ namespace, execution, maximumPageSize });
  } catch (error) {
    if (error instanceof WorkflowNotFoundError || isNotFound(error)) return null;
    throw error;
  }
}

type Payloads = Parameters<Client['options']['loadedDataConverter']['payloadCodecs'][number]['decode']>[0];

/** Decodes the first payload; null where there is none, or it is no JSON object. */
export async function decodeFirst<T extends object>(
  client: Client,
  payloads: Payloads | null | undefined,
): Promise<T | null> {
  const { payloadCodecs, payloadConverter } = client.options.loadedDataConverter;
  let decoded = payloads ?? [];
  for (const codec of payloadCodecs) decoded = await codec.decode(decoded);
  const [first] = decoded;
  if (first === undefined) return null;
  const value = payloadConverter.fromPayload<unknown>(first);
  return typeof value === 'object' && value !== null ? (value as T) : null;
}
