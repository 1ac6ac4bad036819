/**
 * Reads what continue-as-new handed on. A worker that can't read it fails the workflow task, and a worker that can
 * takes it up. To begin anew instead would free the key of a job that goes on.
 */
import { workflowInfo } from '@temporalio/workflow';
import { Undecodable } from '../contract/kinds.js';

/**
 * What the run before handed on, as `continued` in the input; null if the run begins with a caller's input. Throws if
 * this worker can't decode the input, or if it knows another version of the state.
 */
export function handedOn<State extends { version: number }>(input: unknown, known: number): State | null {
  const { continuedFromExecutionRunId, cronSchedule } = workflowInfo();
  if (continuedFromExecutionRunId === undefined) return null;
  // No cron schedule outlives continue-as-new: this input is a caller's.
  if (cronSchedule === undefined) checkDecoded(input);
  const continued = (input as { continued?: State } | undefined)?.continued ?? null;
  if (continued) checkStateVersion(continued.version, known);
  return continued;
}

/** Throws if a state that our own workers wrote can't be decoded. */
export function checkDecoded(state: unknown): void {
  if (!(state instanceof Undecodable)) return;
  throw new Error('this worker can not decode what the run before handed on: it may lack PAYLOAD_KEYS_FILE');
}

function checkStateVersion(version: number, known: number): void {
  if (version === known) return;
  const age = version > known ? 'a newer' : 'an older';
  const versions = `state version ${version}; this worker knows ${known}`;
  throw new Error(`${age} release continued this workflow (${versions}): run it with that release`);
}
