/** Lines of CSV (RFC 4180) that a spreadsheet takes as text and numbers, never as a formula. */

const FORMULA = /^[\s]*[=+\-@]|^[\t\r]/;

/** One line, its end included. Numbers stay numbers; text that a spreadsheet would run begins with an apostrophe. */
export function csvLine(cells: readonly (string | number | boolean | bigint)[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`;
}

function csvCell(value: string | number | boolean | bigint): string {
  if (typeof value !== 'string') return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
