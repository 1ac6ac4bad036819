/**
 * Compares the contract with that of the last release: every rule that callers of the release may rely on, and that is
 * gone or new. A new field brings no such rule unless it is required: an input of today, and the answer of an older
 * release or in an old history, lack it.
 */
import type { Contract } from './artefacts.js';

/** Says nothing that a caller relies on. */
const WORDS = ['description', 'title', 'version', '$id', '$schema'];

/** The rules that are gone or new, a line each: `new: schema.$defs.JobState.properties.phase.enum "paused"`. */
export function changesSince(released: Contract, present: Contract): string[] {
  const [before, now] = [rulesOf(released), rulesOf(present)];
  const gone = [...before.rules.keys()].filter((rule) => !now.rules.has(rule));
  const added = [...now.rules].filter(([rule, place]) => {
    const holder = place.slice(0, place.lastIndexOf('.'));
    return !before.rules.has(rule) && before.places.has(holder);
  });
  return [...gone.map((rule) => `gone: ${rule}`), ...added.map(([rule]) => `new: ${rule}`)];
}

interface Rules {
  /** What holds, by place and value, with its place. */
  rules: Map<string, string>;
  /** All places that exist. */
  places: Set<string>;
}

function rulesOf(contract: Contract): Rules {
  const found: Rules = { rules: new Map(), places: new Set() };
  const add = (place: string, value: unknown) => found.rules.set(`${place} ${JSON.stringify(value)}`, place);
  const walk = (value: unknown, place: string): void => {
    found.places.add(place);
    if (!isObject(value) || Object.keys(value).length === 0) return void add(place, value);
    for (const [key, item] of Object.entries(value)) {
      if (!Array.isArray(value) && WORDS.includes(key) && !place.endsWith('.properties')) continue;
      // The statuses of answers are words, too: each is one more that a caller must know.
      if (place.endsWith('.answers')) add(place, key);
      if (!Array.isArray(value)) walk(item, `${place}.${key}`);
      else if (isObject(item)) walk(item, `${place}[${nameOf(item) ?? key}]`);
      else add(place, item);
    }
  };
  for (const [part, value] of Object.entries(contract)) if (!WORDS.includes(part)) walk(value, part);
  return found;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** Of a message, a workflow, or a form among several; forms of objects have none but their place. */
function nameOf(item: object): string | undefined {
  const { workflow, kind, name, type, $ref } = item as Record<string, unknown>;
  if (workflow !== undefined) return [workflow, kind, name].join('/');
  return [$ref, type].find((text): text is string => typeof text === 'string' && text !== 'object');
}
