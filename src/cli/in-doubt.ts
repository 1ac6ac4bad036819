/** How a write in doubt is shown, what was decided about those before it, and the commands that settle it. */
import type { Decision, InDoubtWrite } from '../contract.js';
import type { GlobalOptions } from './session.js';
import { hint, readableTime } from './table.js';

/** The lines that show a write in doubt. */
export function inDoubtFields(inDoubt: InDoubtWrite | null): [label: string, value: string | null | undefined][] {
  return [
    ['In doubt', inDoubt?.kind],
    ['Follow-up id', inDoubt?.followUpId],
    ['Reason', inDoubt?.reason],
    ['Since', inDoubt?.since],
    ['Look after', inDoubt?.lookAfter],
  ];
}

/** Who decided about a write of this job before. */
export function lastDecisionField(decisions: Decision[]): [label: string, value: string | undefined] {
  const last = decisions.at(-1);
  return ['Decided last', last && decisionText(last)];
}

/** A decision in one line. */
export function decisionText({ action, kind, followUpId, by, note, at }: Decision): string {
  const write = kind === 'create' ? 'the create' : `follow-up ${followUpId}`;
  return `${action} for ${write}, ${readableTime(at)}${by ? ` by ${by}` : ''}${note ? `: ${note}` : ''}`;
}

/** The commands that settle a write in doubt, each with the case that it fits. They name the write that was shown. */
export function resolveCommands(
  workflowId: string,
  inDoubt: InDoubtWrite | null,
  globals: GlobalOptions,
): [label: string, command: string][] {
  if (!inDoubt) return [];
  const arrived = inDoubt.kind === 'create' ? ['adopt', '--job-id', 'ID_OF_THE_JOB'] : ['delivered'];
  const command = (...action: string[]) => hint(globals, ['resolve', workflowId, ...action, '--since', inDoubt.since]);
  return [
    ['If it is there', command(...arrived)],
    ['If it is not', command('retry')],
    ['To give it up', command('abandon')],
  ];
}
