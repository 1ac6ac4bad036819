/** `state`: what a job is doing, or did, as its workflow reports it. */
import type { Command } from 'commander';
import { waitRemedy } from '../agent-job/shown-text.js';
import { OPERATIONS } from '../operations.js';
import { addOperation, type JobNameFlags, readJobName } from './operation.js';
import { printAnswer, withSession } from './session.js';
import { resolveCommands, show } from './show.js';

/** Adds `state`. */
export function addState(program: Command): void {
  const command = addOperation(program, OPERATIONS.state);
  command.action(() => {
    const { json, ...flags } = command.opts<JobNameFlags & { json?: boolean }>();
    const [name] = readJobName(command.args, flags);
    return withSession(command, async ({ jobs, globals, signal }) => {
      const job = jobs.handle(name);
      const state = await job.state({ signal });
      const { workflowId, url } = job;
      // For a write in doubt the commands stand below.
      const whatToDo = state.waiting && !state.unknown ? waitRemedy(state.waiting, state.projectId) : null;
      const commands = resolveCommands(workflowId, state.unknown, globals);
      const answer = { workflowId, url, ...state };
      printAnswer(json, answer, () => show({ ...answer, whatToDo }, commands));
    });
  });
}
