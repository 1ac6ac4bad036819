/** Values in the query language of Temporal's visibility, whatever characters they have. */

/** A value in quotes. */
export function quoted(value: string): string {
  return `'${value.replaceAll("'", "''")}'`;
}

/**
 * Asks for a value. No server was found to take `"` and `\` quoted, nor `'` at either end, nor NUL: the query asks for
 * what precedes them, and the rest is compared as jobs are read.
 */
export function equals(attribute: string, value: string): string {
  const [start = ''] = /^(?!')[^"\\\0]*[^"\\\0']/.exec(value) ?? [];
  if (start === value) return `${attribute} = ${quoted(value)}`;
  return start === '' ? `${attribute} IS NOT NULL` : `${attribute} STARTS_WITH ${quoted(start)}`;
}

/**
 * Asks for a value of a list of keywords, which takes no beginning of one. A dev server takes upper case for lower case
 * there: what is read must be compared.
 */
export function includes(attribute: string, value: string): string {
  const exact = `${attribute} = ${quoted(value)}`;
  return equals(attribute, value) === exact ? exact : `${attribute} IS NOT NULL`;
}
