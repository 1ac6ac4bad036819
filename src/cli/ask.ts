/** Questions to a person at a terminal. Where there is none nothing is asked: a script must not hang. */
import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';

/** Whether somebody can read a question and type an answer. */
export function isInteractive(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/** The line that is typed; empty at the end of the input. */
export async function ask(question: string, signal: AbortSignal): Promise<string> {
  // The terminal itself edits the line, and Ctrl-C stays a signal.
  const lines = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  try {
    const ended = once(lines, 'close').then(() => '');
    return (await Promise.race([lines.question(question, { signal }), ended])).trim();
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    lines.close();
  }
}

/** Somebody did not want it. */
class DeclinedError extends Error {
  override readonly name = 'DeclinedError';
}

/** Asks before what can't be undone; throws where the answer is no. `--yes` answers, and a script is not asked. */
export async function confirm(
  question: string,
  { yes = false, signal }: { yes?: boolean | undefined; signal: AbortSignal },
): Promise<void> {
  if (yes || !isInteractive()) return;
  const answer = await ask(`${question} [y/N] `, signal);
  if (!/^y(es)?$/i.test(answer)) throw new DeclinedError('nothing was done');
}
