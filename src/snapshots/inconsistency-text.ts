import type { Inconsistency, InconsistencyKind } from '../contract.js';

const WORDS: Record<InconsistencyKind, string> = {
  overlap: 'a page did not begin with the last row of the page before',
  totals: 'the totals changed while the pages were read',
  repeatedPath: 'a path came twice',
  firstPage: 'the first page was another when it was read again',
  noProgress: 'a page brought nothing new and claimed that more follow',
  order: 'the rows changed places',
  impossible: 'rows and totals contradict each other',
  shrunk: 'most of the rows were gone, and no later scan agreed',
};

/** What a scan saw, for a person. */
export function inconsistencyText({ kind, offset }: Inconsistency): string {
  // A newer release may know more kinds.
  return `${WORDS[kind] ?? kind} (${kind}, row ${offset})`;
}
