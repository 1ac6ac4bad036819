/**
 * Follows a job for a command that waits: its phases, its pull request, what holds it, and the commands that settle a
 * write in doubt. Each change is a line of stderr.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { lastingWait, waitRemedy } from '../agent-job/shown-text.js';
import type { JobState } from '../contract.js';
import type { JobHandle } from '../starter.js';
import { printToStderr, type GlobalOptions, type Session } from './session.js';
import { printable, resolveCommands, show } from './show.js';

/** The pause between looks at a job that has ended, until a follow-up has started it again. */
const LOOK_MS = 1_000;

/** Awaits work that may take long, and shows meanwhile how the job goes. */
export async function withProgress<T>(session: Session, job: JobHandle, work: Promise<T>): Promise<T> {
  const ended = new AbortController();
  const signal = AbortSignal.any([session.signal, ended.signal]);
  // What fails the watch also fails the work, which reports the error.
  const following = follow(session, job, signal).catch(() => {});
  try {
    return await work;
  } finally {
    ended.abort();
    await following;
  }
}

async function follow({ jobs: { client }, globals }: Session, job: JobHandle, signal: AbortSignal): Promise<void> {
  const { watchJob } = await import('../client/agent-job/wait.js');
  const print = (line: string) => {
    if (!signal.aborted) printToStderr(`agent-jobs: ${line}`);
  };
  const ignore = () => {};
  let trouble = '';
  const warn = (_: string, { error }: { error?: unknown }) => {
    const { message } = error as Error;
    if (message !== trouble) print(`still waiting: ${message}`);
    trouble = message;
  };
  const context = { client, timeoutMs: undefined, logger: { debug: ignore, info: ignore, warn, error: ignore } };
  let before: string[] = [];
  while (!signal.aborted) {
    for await (const state of watchJob(context, job.workflowId, { signal })) {
      const lines = linesOf(state, job.workflowId, globals);
      for (const line of lines.filter((one) => !before.includes(one))) print(line);
      before = lines;
    }
    await delay(LOOK_MS, undefined, { signal });
  }
}

/** The lines that show a state; `follow` prints those that are new. */
function linesOf(
  { phase, job, jobId, waiting, unknown, projectId }: JobState,
  workflowId: string,
  globals: GlobalOptions,
) {
  const progress = [phase, job?.status, jobId && `job ${jobId}`].filter(Boolean).join(', ');
  const what = waiting && lastingWait(waiting);
  const why = waiting?.reason === undefined ? '' : ` (${printable(waiting.reason)})`;
  const commands = show({}, resolveCommands(workflowId, unknown, globals));
  return [
    printable(progress),
    ...(job?.prLink ? [`pull request: ${printable(job.prLink)}`] : []),
    ...(what ? [`still waiting: the job waits for ${what}; ${waitRemedy(waiting, projectId)}${why}`] : []),
    ...(unknown ? [`after a look upstream (from ${unknown.lookAfter} on) one of these settles it:\n${commands}`] : []),
  ];
}
