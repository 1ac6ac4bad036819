/** The prompt of a job with a write in doubt: whoever looks for its job upstream must know it. */
import type { AttentionItem } from '../starter.js';
import type { Session } from './session.js';
import { printableLines } from './text.js';

/** A prompt may be half a megabyte: its beginning tells which one it is. */
const SHOWN_LINES = 12;
const SHOWN_CHARACTERS = 1_200;

/** Of a create; empty for a follow-up, and where nobody knows the prompt. */
export function doubtfulPromptText({ unknown }: AttentionItem, prompt: string | null): string {
  return unknown?.kind !== 'create' || prompt === null ? '' : `\nPrompt\n${shownPrompt(prompt)}`;
}

/** Null where prompts are hidden, and where Temporal no longer tells. */
export async function readPromptOf({ jobs, signal }: Session, workflowId: string): Promise<string | null> {
  if (jobs.hidePrompts) return null;
  const { temporalCall } = await import('../client/temporal-call.js');
  const { readRun } = await import('../client/agent-job/run-record.js');
  const { readStartInput } = await import('../client/agent-job/start-input.js');
  const read = async () => {
    const { firstRunId } = await readRun(jobs.client, workflowId);
    return readStartInput(jobs.client, workflowId, firstRunId);
  };
  const input = await temporalCall(jobs.client, { signal }, read).catch(() => null);
  return input?.prompt ?? null;
}

function shownPrompt(prompt: string): string {
  const lines = printableLines(prompt.slice(0, SHOWN_CHARACTERS)).split('\n').slice(0, SHOWN_LINES);
  const text = lines.map((line) => `  ${line}`).join('\n');
  return lines.join('\n').length < prompt.length ? `${text}\n  …` : text;
}
