/** How often each name came. */
export function tally(names: string[]): Map<string, number> {
  const tallies = new Map<string, number>();
  for (const name of names) count(tallies, name);
  return tallies;
}

export function count(tallies: Map<string, number>, name: string): void {
  tallies.set(name, (tallies.get(name) ?? 0) + 1);
}
