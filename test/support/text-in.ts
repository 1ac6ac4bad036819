/** All readable texts in a value, payloads included as the bytes they are. */
export function textIn(value: unknown): string {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('utf8');
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .map(([name, inner]) => `${name}: ${textIn(inner)}`)
    .join('\n');
}
