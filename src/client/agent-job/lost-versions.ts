/**
 * Workflows that are pinned to a version of the workers which nobody runs any more: Temporal gives their tasks to no
 * other. docs/upgrades.md says how they are moved.
 */
import type { Client } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { livePollers } from '../pollers.js';
import { listWorkflows, temporalCall, type CallOptions } from '../temporal-call.js';
import { isInvalidArgument } from '../temporal-errors.js';
import { quoted } from '../visibility-query.js';

const VERSION = defineSearchAttributeKey('TemporalWorkerDeploymentVersion', SearchAttributeType.KEYWORD);
const IS_PINNED = `TemporalWorkflowVersioningBehavior = 'Pinned' AND ExecutionStatus = 'Running'`;
/** More versions are not looked at in one call. */
const MAX_VERSIONS = 100;

/** A version is one of a Worker Deployment, and of one task queue of it. */
interface Version {
  /** As Temporal writes it: deployment, colon, build id. */
  name: string;
  taskQueue: string;
}

/** The versions that running workflows of these types are pinned to, and that no worker polls. */
export async function* lostVersions(
  client: Client,
  types: readonly string[],
  options: CallOptions,
): AsyncGenerator<Version, void, undefined> {
  const known: Version[] = [];
  while (known.length < MAX_VERSIONS) {
    const version = await firstOther(client, types, known, options);
    if (version === null) return;
    known.push(version);
    if (!(await temporalCall(client, options, () => isPolled(client, version)))) yield version;
  }
}

/** The condition of a list of all that is pinned to it. */
export function isPinnedTo({ name, taskQueue }: Version): string {
  return `${IS_PINNED} AND ${VERSION.name} = ${quoted(name)} AND TaskQueue = ${quoted(taskQueue)}`;
}

/** The version of any workflow that is pinned to none of those. */
async function firstOther(
  client: Client,
  types: readonly string[],
  known: readonly Version[],
  options: CallOptions,
): Promise<Version | null> {
  const isOther = ({ name, taskQueue }: Version) =>
    `(${VERSION.name} != ${quoted(name)} OR TaskQueue != ${quoted(taskQueue)})`;
  const isOurs = `WorkflowType IN (${types.map(quoted).join(', ')})`;
  try {
    const query = [isOurs, IS_PINNED, ...known.map(isOther)].join(' AND ');
    for await (const { typedSearchAttributes, taskQueue } of listWorkflows(client, query, options)) {
      const name = typedSearchAttributes.get(VERSION);
      if (name !== undefined) return { name, taskQueue };
    }
  } catch (error) {
    // An older server knows no versions.
    if (!isInvalidArgument(error)) throw error;
  }
  return null;
}

async function isPolled(client: Client, { name, taskQueue }: Version): Promise<boolean> {
  const pollers = await livePollers(client, taskQueue, 'workflow');
  return pollers.some(({ version }) => version === name);
}
