/** What commands read of files and of standard input: prompts, and lines of any number, all of it UTF-8. */
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { isObject } from '../contract/shared.js';
import { UsageError } from './exit.js';

/** The prompt from the argument, else from the file, else (or for `-`) from stdin, without one newline at its end. */
export async function readPrompt(argument: string | undefined, file: string | undefined): Promise<string> {
  if (argument !== undefined && argument !== '-' && file !== undefined) {
    throw new UsageError('give the prompt as an argument or as --prompt-file, not both');
  }
  if (argument !== undefined && argument !== '-') return argument;
  if (file === undefined && argument === undefined && process.stdin.isTTY) {
    throw new UsageError('no prompt: give it as an argument, with --prompt-file, or on stdin');
  }
  return (await readText(file ?? '-', '--prompt-file')).replace(/\r?\n$/, '');
}

/** A file's text, or stdin's for `-`. */
async function readText(file: string, flag: string): Promise<string> {
  const reading = file === '-' ? buffer(process.stdin) : readFile(file);
  const bytes = await reading.catch((error: Error) => {
    throw new UsageError(`${flag}: ${error.message}`);
  });
  const text = decode(bytes);
  if (text === null) throw new UsageError(`${file === '-' ? 'stdin' : file} is not UTF-8 text`);
  return text;
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

/** A line of `--from` with its number from 1: the object that it holds, or what is wrong with it. */
type JsonLine = { number: number } & ({ value: Record<string, unknown> } | { problem: string });

/** The lines of a source, each of which must hold one JSON object. */
export async function* readJsonLines(source: Readable): AsyncGenerator<JsonLine> {
  for await (const line of readLines(source)) {
    const { number } = line;
    if ('problem' in line) yield { number, problem: `the line ${line.problem}` };
    else yield { number, ...readObject(line.text) };
  }
}

function readObject(text: string): { value: Record<string, unknown> } | { problem: string } {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? { value } : { problem: 'the line must be one JSON object' };
  } catch (error) {
    // The parser's own text shows a piece of the line, which may be a prompt.
    const [where = ''] = / at position \d+/.exec((error as Error).message) ?? [];
    return { problem: `the line must be one JSON object; it is not JSON${where}` };
  }
}

/** A valid line is shorter: its prompt has at most 512 KiB, and an escape makes six bytes of one. */
const MAX_LINE_BYTES = 8 * 1024 * 1024;

/** A line with its number from 1; or what is wrong with it. */
type Line = { number: number } & ({ text: string } | { problem: string });

const NEWLINE = 0x0a;

/** Splits bytes into lines of UTF-8. Lines of white space alone are left out. */
async function* readLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Line> {
  const line = new LineBuffer();
  for await (const chunk of chunks) {
    let begin = 0;
    for (let end; (end = chunk.indexOf(NEWLINE, begin)) >= 0; begin = end + 1) {
      line.add(chunk.subarray(begin, end));
      const whole = line.take();
      if (whole !== null) yield whole;
    }
    line.add(chunk.subarray(begin));
  }
  const last = line.take();
  if (last !== null) yield last;
}

/** The line that is being read; of one that is too long only its length is kept. */
class LineBuffer {
  #pieces: Uint8Array[] = [];
  #bytes = 0;
  #number = 0;

  add(piece: Uint8Array): void {
    this.#bytes += piece.length;
    if (this.#bytes > MAX_LINE_BYTES) this.#pieces = [];
    else if (piece.length > 0) this.#pieces.push(piece);
  }

  /** Null for a line without text. */
  take(): Line | null {
    const [pieces, bytes] = [this.#pieces, this.#bytes];
    this.#pieces = [];
    this.#bytes = 0;
    this.#number += 1;
    const number = this.#number;
    if (bytes > MAX_LINE_BYTES) return { number, problem: `must be at most ${MAX_LINE_BYTES} bytes; it is ${bytes}` };
    const text = decode(Buffer.concat(pieces));
    if (text === null) return { number, problem: 'must be UTF-8 text' };
    return text.trim() === '' ? null : { number, text };
  }
}
