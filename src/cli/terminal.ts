/** What a command asks at a terminal. */
import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import { printableLines } from './show.js';

/** The line that is typed; empty at the end of the input. */
async function ask(question: string, signal: AbortSignal): Promise<string> {
  // The terminal itself edits the line, and Ctrl-C stays a signal.
  const lines = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  try {
    const ended = once(lines, 'close').then(() => '');
    return (await Promise.race([lines.question(printableLines(question), { signal }), ended])).trim();
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

/** What decides whether a command asks. */
interface ConfirmFlags {
  yes?: boolean | undefined;
  json?: boolean | undefined;
}

/** Whether somebody can read a question and type an answer: a script has no terminal, or wants JSON. */
export function canAsk({ json = false }: ConfirmFlags): boolean {
  return !json && process.stdin.isTTY && process.stderr.isTTY;
}

/** Adds the option that answers. */
export function addYesOption(command: Command): Command {
  return command.option('--yes', 'do not ask at a terminal');
}

/**
 * Asks before what can't be undone; throws where the answer is no. `--yes` answers. The question is put together only
 * where it is asked; null where nothing would be done.
 */
export async function confirm(
  question: () => string | null | Promise<string | null>,
  flags: ConfirmFlags,
  signal: AbortSignal,
): Promise<void> {
  if (flags.yes || !canAsk(flags)) return;
  const text = await question();
  if (text === null) return;
  // The input was read as decisions or as a prompt.
  if (process.stdin.readableEnded)
    throw new DeclinedError(`nothing was done: the input has ended; give --yes. ${text}`);
  const answer = await ask(`${text} [y/N] `, signal);
  if (!/^y(es)?$/i.test(answer)) throw new DeclinedError('nothing was done');
}
