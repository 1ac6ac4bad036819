/** A table in Markdown, columns aligned as prettier aligns them. */
export function markdownTable(heads: readonly string[], body: readonly (readonly string[])[]): string {
  const widths = heads.map((_, i) => Math.max(...[heads, ...body].map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[]) => `| ${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(' | ')} |`;
  return [line(heads), line(widths.map((width) => '-'.repeat(width))), ...body.map(line)].join('\n');
}
