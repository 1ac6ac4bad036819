/** Prompts are nobody's business but the upstream's: what it repeats of one in its own words is masked, like a key. */

/** A piece of so many letters and digits is no chance. */
const PIECE = 16;
/** Of a shorter prompt all of it, down to this: less would be words that everybody uses. */
const MIN_PIECE = 8;

/** The text with every piece of the prompt masked, however it was quoted, wrapped or capitalized. */
export function withoutEcho(text: string, prompt: string): string {
  const said = lettersOf(text);
  const asked = lettersOf(prompt).letters;
  const size = Math.min(PIECE, asked.length);
  if (size < MIN_PIECE) return text;
  const pieces = new Map<string, number[]>();
  for (let i = 0; i + size <= said.letters.length; i++) {
    const piece = said.letters.slice(i, i + size);
    pieces.set(piece, [...(pieces.get(piece) ?? []), i]);
  }
  const echoed: number[] = [];
  for (let i = 0; i + size <= asked.length; i++) {
    const piece = asked.slice(i, i + size);
    for (const start of pieces.get(piece) ?? []) echoed.push(start);
    pieces.delete(piece);
  }
  return masked(
    text,
    said.places,
    echoed.toSorted((a, b) => a - b),
    size,
  );
}

/** Letters and digits alone, and where each of them stands. */
function lettersOf(text: string): { letters: string; places: number[] } {
  const places: number[] = [];
  let letters = '';
  for (const { 0: letter, index } of text.matchAll(/[\p{L}\p{N}]/gu)) {
    const lower = letter.toLowerCase();
    letters += lower;
    for (let i = 0; i < lower.length; i++) places.push(index);
  }
  return { letters, places };
}

function masked(text: string, places: number[], starts: number[], size: number): string {
  let result = '';
  let end = 0;
  for (const start of starts) {
    const from = places[start]!;
    if (from >= end) result += `${text.slice(end, from)}***`;
    end = Math.max(end, places[start + size - 1]! + 1);
  }
  return result + text.slice(end);
}
