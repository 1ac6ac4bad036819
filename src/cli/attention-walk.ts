/** `attention` at a terminal: one write in doubt after the other, and the question what to do. */
import type { InDoubtWrite } from '../contract.js';
import type { AttentionItem } from '../starter.js';
import { ask, confirm } from './ask.js';
import { readAttribution } from './attribution.js';
import { withKeysHint } from './keys-hint.js';
import { earlyRetryWarning, readResolution, type Resolution } from './resolution.js';
import { adoptionOf, drivenText, JobDrivers } from './job-drivers.js';
import { print, printToStderr, type Session } from './session.js';
import { printable } from './text.js';

/** What came of an item: the walk goes on, or ends. */
type Step = 'next' | 'quit';

/** Settles an item that was printed already as the person says. */
export async function walkThrough(session: Session, item: AttentionItem, unknown: InDoubtWrite): Promise<Step> {
  for (;;) {
    const arrived = unknown.kind === 'create' ? '[a]dopt its job' : '[d]elivered';
    const question = `${arrived}, [r]etry, [g]ive it up, [s]kip or [q]uit? `;
    const letter = (await ask(question, session.signal)).toLowerCase().slice(0, 1);
    if (letter === 'q') return 'quit';
    if (letter === 's' || letter === '') return 'next';
    const decision = await decisionOf(letter, unknown, session.signal);
    if (decision !== null && (await settle(session, item, unknown, decision))) return 'next';
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
  session: Session,
  { workflowId, projectId }: AttentionItem,
  unknown: InDoubtWrite,
  decision: { action: string; jobId?: string },
): Promise<boolean> {
  const { jobs, signal } = session;
  try {
    const resolution = await readResolution({
      workflowId,
      ...decision,
      since: unknown.since,
      followUpId: unknown.followUpId,
      ...(await readAttribution({})),
    });
    await warnOfOtherDriver(session, resolution, projectId);
    await confirm(() => questionOf(resolution, unknown), {}, signal);
    const { workflowId: _, ...named } = resolution;
    await jobs.handle(workflowId).resolve(named, { signal });
    print(`settled with ${decision.action}\n`);
    return true;
  } catch (error) {
    signal.throwIfAborted();
    printToStderr(`agent-jobs: ${withKeysHint((error as Error).message)}`);
    return false;
  }
}

async function warnOfOtherDriver(session: Session, resolution: Resolution, projectId: string | null): Promise<void> {
  const adoption = projectId === null ? null : adoptionOf(resolution, projectId);
  const other = adoption && (await new JobDrivers(session).otherThan(adoption));
  if (other !== null) printToStderr(printable(`agent-jobs: warning: ${drivenText(other, adoption!.jobId)}`));
}

function questionOf(resolution: Resolution, unknown: InDoubtWrite): string {
  const warning = earlyRetryWarning(resolution, unknown, Date.now());
  if (warning !== null) printToStderr(`agent-jobs: warning: ${warning}`);
  return `Settle it with ${resolution.action}, which can not be undone?`;
}
