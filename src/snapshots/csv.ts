/** Lines of CSV (RFC 4180) that a spreadsheet takes as text and numbers, never as a formula. */

/** Where a cell may begin: one that separates by semicolons or tabs knows no comma, nor the quotes after one. */
const FORMULA = /(^|[;\t\r\n])(?=[\s\p{Cc}\p{Cf}]*[=+\-@＝＋－＠])|^(?=[\t\r])/gu;

/** One line, its end included. Numbers stay numbers; text that a spreadsheet would run begins with an apostrophe. */
export function csvLine(cells: readonly (string | number | boolean | bigint)[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`;
}

function csvCell(value: string | number | boolean | bigint): string {
  if (typeof value !== 'string') return String(value);
  const text = value.replaceAll(FORMULA, "$1'");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
