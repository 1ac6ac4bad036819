/** What commands read: prompts and lines of JSON, all of it UTF-8, and the answer of a person at a terminal. */
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { createInterface } from 'node:readline/promises';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import type { Command } from 'commander';
import { isObject } from '../contract/shared.js';
import { CommandError, UsageError } from './exit.js';
import { printableLines } from './show.js';

/** The prompt from the argument, else from the file, else (or for `-`) from stdin, without one newline at its end. */
export async function readPrompt(argument: string | undefined, file: string | undefined): Promise<string> {
  if (argument !== undefined && argument !== '-' && file !== undefined) {
    throw new UsageError('give the prompt as an argument or as --prompt-file, not both');
  }
  if (argument !== undefined && argument !== '-') return argument;
  if (file === undefined && argument === undefined && process.stdin.isTTY) {
    throw new UsageError('no prompt: give it as an argument, with --prompt-file, or on stdin');
  }
  const reading = file === undefined || file === '-' ? buffer(process.stdin) : readFile(file);
  const bytes = await reading.catch((error: Error) => {
    throw new UsageError(`--prompt-file: ${error.message}`);
  });
  const text = decode(bytes);
  if (text === null) throw new UsageError('the prompt is not UTF-8 text');
  return text.replace(/\r?\n$/, '');
}

function decode(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** The file of `--from`, or stdin for `-`; throws a UsageError. */
export async function openSource(file: string): Promise<Readable> {
  if (file === '-') return process.stdin;
  try {
    if ((await stat(file)).isDirectory()) throw new Error(`${file} is a folder`);
    const stream = createReadStream(file);
    await once(stream, 'open');
    return stream;
  } catch (error) {
    throw new UsageError(`--from: ${(error as Error).message}`);
  }
}

/** The object that a line holds, or what is wrong with the line. */
type Read = { value: Record<string, unknown> } | { problem: string };

/** A line of `--from`, with its number from 1. */
export type JsonLine = { number: number } & Read;

/** A valid line is shorter: its prompt has at most 512 KiB, and an escape makes six bytes of one. */
const MAX_LINE_BYTES = 8 * 1024 * 1024;
const NEWLINE = 0x0a;

/** The lines of a source. Each must hold one JSON object; lines of white space alone are left out. */
export async function* readJsonLines(source: AsyncIterable<Uint8Array>): AsyncGenerator<JsonLine> {
  let [number, bytes] = [0, 0];
  let pieces: Uint8Array[] = [];
  const add = (piece: Uint8Array) => {
    bytes += piece.length;
    // The length alone is kept of a line that is too long.
    if (bytes > MAX_LINE_BYTES) pieces = [];
    else pieces.push(piece);
  };
  const take = () => {
    const read = readObject(pieces, bytes);
    [number, bytes, pieces] = [number + 1, 0, []];
    return read && { number, ...read };
  };
  for await (const chunk of source) {
    let begin = 0;
    for (let end; (end = chunk.indexOf(NEWLINE, begin)) >= 0; begin = end + 1) {
      add(chunk.subarray(begin, end));
      const line = take();
      if (line) yield line;
    }
    add(chunk.subarray(begin));
  }
  const last = take();
  if (last) yield last;
}

/** Null for a line of white space. */
function readObject(pieces: readonly Uint8Array[], bytes: number): Read | null {
  if (bytes > MAX_LINE_BYTES) {
    return { problem: `the line must be at most ${MAX_LINE_BYTES} bytes; it is ${bytes}` };
  }
  const text = decode(Buffer.concat(pieces));
  if (text === null) return { problem: 'the line must be UTF-8 text' };
  if (text.trim() === '') return null;
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? { value } : { problem: 'the line must be one JSON object' };
  } catch (error) {
    // The parser's own text shows a piece of the line, which may be a prompt.
    const [place = ''] = / at position \d+/.exec((error as Error).message) ?? [];
    return { problem: `the line must be one JSON object; it is not JSON${place}` };
  }
}

interface ConfirmFlags {
  yes?: boolean | undefined;
  json?: boolean | undefined;
}

/** Adds the option that answers. */
export function addYesOption(command: Command): Command {
  return command.option('--yes', 'do not ask at a terminal');
}

/** Whether a person can read a question and type an answer: a script has no terminal, or wants JSON. */
export function canAsk({ json = false }: ConfirmFlags): boolean {
  return !json && process.stdin.isTTY && process.stderr.isTTY;
}

/** Asks before what can't be undone; throws if the answer is no. `--yes` answers. */
export async function confirm(question: string, flags: ConfirmFlags, signal: AbortSignal): Promise<void> {
  if (flags.yes || !canAsk(flags)) return;
  // The input was read as decisions or as a prompt.
  if (process.stdin.readableEnded) {
    throw new CommandError('error', `nothing was done: the input has ended; give --yes. ${question}`);
  }
  // The terminal itself edits the line, and Ctrl-C stays a signal.
  const lines = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  try {
    const ended = once(lines, 'close').then(() => '');
    const answer = await Promise.race([lines.question(printableLines(`${question} [y/N] `), { signal }), ended]);
    if (!/^y(es)?$/i.test(answer.trim())) throw new CommandError('error', 'nothing was done');
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    lines.close();
  }
}
