/** What an expression of Prometheus names: enough to compare it with what workers show. */

/** A metric, the labels that are matched, and the values that they are compared with. */
export interface Selector {
  metric: string;
  matchers: { label: string; values: string[] }[];
}

const SELECTOR = /\b((?:agent_jobs|temporal|process|nodejs)_\w+|up)\b(?:\{([^}]*)\})?/g;
const MATCHER = /(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"/g;
const GROUPING = /\b(?:by|without|on|ignoring)\s*\(([^)]*)\)/g;

/** The selectors of an expression. */
export function selectorsOf(expression: string): Selector[] {
  return [...expression.matchAll(SELECTOR)].map(([, metric, matchers = '']) => ({
    metric: metric!,
    matchers: [...matchers.matchAll(MATCHER)].map(([, label, value]) => ({ label: label!, values: value!.split('|') })),
  }));
}

/** The labels that an expression groups by. */
export function groupingOf(expression: string): string[] {
  const lists = [...expression.matchAll(GROUPING)].map(([, labels]) => labels!.split(','));
  return lists.flat().flatMap((label) => label.trim() || []);
}

/** A series of an exposition: the metric, its labels and its value. */
export interface Sample {
  metric: string;
  labels: Record<string, string>;
  value: number;
}

/** Reads what `/metrics` answers. */
export function parseExposition(text: string): Sample[] {
  return text.split('\n').flatMap((line) => {
    const [, metric, labels = '', value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (metric === undefined) return [];
    const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name, text]) => [name!, text!]);
    return [{ metric, labels: Object.fromEntries(pairs) as Record<string, string>, value: Number(value) }];
  });
}
