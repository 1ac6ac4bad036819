/** `state`: what a job is doing, or did, as its workflow reports it. */
import type { Command } from 'commander';
import { OPERATIONS } from '../operations.js';
import { remedyFor } from './follow.js';
import { addOperation } from './operation.js';
import { printAnswer, withSession } from './session.js';
import { resolveCommands, show } from './show.js';
import { findJob, type JobNameFlags, readJobName } from './targets.js';

interface StateFlags extends JobNameFlags {
  json?: boolean;
}

/** Adds `state`. */
export function addState(program: Command): void {
  const command = addOperation(program, OPERATIONS.state);
  command.action((given: string | undefined, { json, ...flags }: StateFlags) => {
    const name = readJobName({ given, ...flags });
    return withSession(command, async (session) => {
      const { globals, signal } = session;
      const job = await findJob(session, name);
      const state = await job.state({ signal });
      const { workflowId, url } = job;
      // For a write in doubt the commands stand below.
      const whatToDo = state.unknown ? null : remedyFor(state);
      const commands = resolveCommands(workflowId, state.unknown, globals);
      const answer = { workflowId, url, ...state };
      printAnswer(json, answer, () => show({ ...answer, whatToDo }, commands));
    });
  });
}
