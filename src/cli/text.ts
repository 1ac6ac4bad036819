/** Text from the upstream must not steer the terminal. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}+/gu, ' ');
}

/** Two columns, the first as wide as its widest label; rows without a value are left out. */
export function fields(rows: readonly (readonly [label: string, value: string | null | undefined])[]): string {
  const shown = rows.filter((row): row is readonly [string, string] => row[1] != null && row[1] !== '');
  const width = Math.max(0, ...shown.map(([label]) => label.length));
  return shown.map(([label, value]) => `${label.padEnd(width)}  ${printable(value)}`).join('\n');
}

/** Columns under their headings. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows.map((row) => row.map(printable))];
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** `2026-01-31 09:15:00 UTC`. */
export function readableTime(iso: string): string {
  return `${iso.slice(0, 19).replace('T', ' ')} UTC`;
}

/** A word as a POSIX shell reads it. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** A command to copy, with the connection options that this one was called with. */
export function hint(
  connection: { address?: string; namespace?: string; taskQueue?: string },
  words: string[],
): string {
  const { address, namespace, taskQueue } = connection;
  const options = [
    ...(address === undefined ? [] : ['--address', address]),
    ...(namespace === undefined ? [] : ['--namespace', namespace]),
    ...(taskQueue === undefined ? [] : ['--task-queue', taskQueue]),
  ];
  return ['npx', 'agent-jobs', ...options, ...words].map(shellWord).join(' ');
}
