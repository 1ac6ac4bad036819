/** `attention` at a terminal: one write in doubt after the other, with its prompt, and the question what to do. */
import type { InDoubtWrite } from '../contract.js';
import type { AttentionItem } from '../starter.js';
import { ask, confirm } from './ask.js';
import { readAttribution } from './attribution.js';
import { earlyRetryWarning, readResolution, type Resolution } from './resolution.js';
import { print, printToStderr, type Session } from './session.js';
import { printableLines } from './text.js';

/** A prompt may be half a megabyte: its beginning tells which one it is. */
const SHOWN_LINES = 12;
const SHOWN_CHARACTERS = 1_200;

/** What came of an item: the walk goes on, or ends. */
type Step = 'next' | 'quit';

/** Shows an item that was printed already with its prompt, and settles it as the person says. */
export async function walkThrough(session: Session, item: AttentionItem, unknown: InDoubtWrite): Promise<Step> {
  const prompt = unknown.kind === 'create' ? await readPromptOf(session, item.workflowId) : null;
  if (prompt !== null) print(`Prompt\n${shownPrompt(prompt)}\n`);
  for (;;) {
    const arrived = unknown.kind === 'create' ? '[a]dopt its job' : '[d]elivered';
    const question = `${arrived}, [r]etry, [g]ive it up, [s]kip or [q]uit? `;
    const letter = (await ask(question, session.signal)).toLowerCase().slice(0, 1);
    if (letter === 'q') return 'quit';
    if (letter === 's' || letter === '') return 'next';
    const decision = await decisionOf(letter, unknown, session.signal);
    if (decision !== null && (await settle(session, item.workflowId, unknown, decision))) return 'next';
  }
}

/** Null where the letter fits nothing. */
async function decisionOf(
  letter: string,
  { kind }: InDoubtWrite,
  signal: AbortSignal,
): Promise<{ action: string; jobId?: string } | null> {
  if (letter === 'r') return { action: 'retry' };
  if (letter === 'g') return { action: 'abandon' };
  if (letter === 'd' && kind === 'followUp') return { action: 'delivered' };
  if (letter === 'a' && kind === 'create') return { action: 'adopt', jobId: await ask('Id of the job: ', signal) };
  printToStderr('agent-jobs: that is none of them');
  return null;
}

/** False where it is still in doubt, or nobody knows: then the question comes again. */
async function settle(
  { jobs, signal }: Session,
  workflowId: string,
  unknown: InDoubtWrite,
  decision: { action: string; jobId?: string },
): Promise<boolean> {
  try {
    const resolution = await readResolution({
      workflowId,
      ...decision,
      since: unknown.since,
      followUpId: unknown.followUpId,
      ...(await readAttribution({})),
    });
    await confirm(() => questionOf(resolution, unknown), {}, signal);
    const { workflowId: _, ...named } = resolution;
    await jobs.handle(workflowId).resolveUnknown(named, { signal });
    print(`settled with ${decision.action}\n`);
    return true;
  } catch (error) {
    signal.throwIfAborted();
    printToStderr(`agent-jobs: ${(error as Error).message}`);
    return false;
  }
}

function questionOf(resolution: Resolution, unknown: InDoubtWrite): string {
  const warning = earlyRetryWarning(resolution, unknown, Date.now());
  if (warning !== null) printToStderr(`agent-jobs: warning: ${warning}`);
  return `Settle it with ${resolution.action}, which can not be undone?`;
}

/** Null where Temporal no longer tells. */
async function readPromptOf({ jobs, signal }: Session, workflowId: string): Promise<string | null> {
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
