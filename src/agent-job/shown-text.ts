/**
 * Text for people: what a job waits for, by the words of contract/words.ts, the same in the web UI and at a terminal.
 * Also text from outside that a terminal only shows: it must not move the cursor, change the window, or show itself in
 * another order. Pure.
 */
import type { Waiting } from '../contract.js';
import { waitNamed } from '../contract/words.js';

/** What it waits for, as the end of a sentence; undefined if the wait is a job's normal life. */
export function lastingWait(waiting: Waiting): string | undefined {
  const row = waitNamed(waiting.for);
  return row?.isShown ? row.text : undefined;
}

/** What a wait of a job's normal life is worth saying; undefined if it is not. */
export function passingWait({ for: what, until, reason }: Waiting): string | undefined {
  if (what === 'poll') return reason;
  if (what !== 'settle') return undefined;
  return ['the upstream has ended the job: the end must stand', until && ` until ${until}`, reason && `; ${reason}`]
    .filter(Boolean)
    .join('');
}

/** What a person may do about the wait; undefined if the wait is a job's normal life. */
export function waitRemedy({ for: what, position }: Waiting, projectId: string): string | undefined {
  const remedy = waitNamed(what)?.remedy;
  if (remedy == null) return undefined;
  const queue = `"npx agent-jobs queue --project ${shellWord(projectId)}" shows who is next`;
  return position === undefined ? remedy : `${remedy}; ${queue}`;
}

/** Since when it waits, at which place, and until when; `time` formats an ISO time. */
export function waitTimes({ for: what, since, until, position }: Waiting, time = (iso: string) => iso): string {
  const place = position === undefined ? '' : `, position ${position}`;
  // The upstream decides on a turn: what is expected is no promise.
  const end = until === undefined ? '' : `, ${what === 'turn' ? 'expected' : 'until'} ${time(until)}`;
  return `since ${time(since)}${place}${end}`;
}

/** A word as a POSIX shell reads it. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/**
 * Control characters (ESC, C0, DEL, C1), line and paragraph separators, and what turns the direction of writing:
 * U+202A to U+202E, U+2066 to U+2069, and the marks U+061C, U+200E and U+200F.
 */
const UNSAFE = /[\p{Cc}\u2028\u2029\p{Bidi_Control}]+/gu;

/** Those of them that JSON allows inside a string as they are. */
const UNSAFE_IN_JSON = /[\u007F-\u009F\u2028\u2029\p{Bidi_Control}]/gu;

/** The text in one line that a terminal only shows. */
export function printable(text: string): string {
  return text.replace(UNSAFE, ' ');
}

/** The same for text of several lines, as errors have. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n');
}

/** A value as one line of JSON that a terminal only shows; a parser reads the same value. */
export function jsonLine(value: unknown): string {
  return JSON.stringify(value).replace(UNSAFE_IN_JSON, escaped);
}

/** As JSON writes a character by its number; all of them have four digits. */
function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
