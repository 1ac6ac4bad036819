/**
 * Text on its way to a terminal. Prompts, ids and answers of the upstream are written by strangers: none of it may move
 * the cursor, change the window, or show itself in another order than it has. Pure.
 */

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
