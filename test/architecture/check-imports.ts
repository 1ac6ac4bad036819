import type { ImportRule, ReachRule } from './import-rules.js';
import type { ModuleGraph, ModuleImport } from './module-graph.js';

/** `cli/main.ts` and `cli.ts` are of the room `cli`. */
function roomOf(file: string): string {
  return file.split('/')[0]!.replace(/\.ts$/, '');
}

const words = (text = ''): string[] => text.split(' ').filter(Boolean);

/** Each import between rooms, by the two rooms; imports inside a room are free. */
function crossings(graph: ModuleGraph): { file: string; room: string; to: string; isType: boolean }[] {
  return [...graph].flatMap(([file, imports]) =>
    imports
      .map(({ target, kind }) => ({
        file,
        room: roomOf(file),
        to: graph.has(target) ? roomOf(target) : target,
        isType: kind === 'type',
      }))
      .filter(({ room, to }) => room !== to),
  );
}

/** Imports that no rule allows, one line each. */
export function forbiddenImports(graph: ModuleGraph, rules: Record<string, ImportRule>): string[] {
  return crossings(graph).flatMap(({ file, room, to, isType }) => {
    const { values, types, packages } = rules[room] ?? {};
    const allowed = [...words(values), ...words(packages), ...(isType ? words(types) : [])];
    return allowed.includes(to) ? [] : [`${file} imports ${isType ? 'types' : 'values'} of ${to}`];
  });
}

/** Files in a room that the table does not name. */
export function uncoveredFiles(graph: ModuleGraph, rules: Record<string, ImportRule>): string[] {
  return [...graph.keys()].filter((file) => !(roomOf(file) in rules));
}

/** Allowances that no import needs: a value's needs an import of a value, a type's needs one of a type. */
export function unusedRules(graph: ModuleGraph, rules: Record<string, ImportRule>): string[] {
  const used = new Set(crossings(graph).map(({ room, to, isType }) => `${room} → ${isType ? 'types of ' : ''}${to}`));
  return Object.entries(rules).flatMap(([room, { values, types, packages }]) => [
    ...[...words(values), ...words(packages)].map((to) => `${room} → ${to}`).filter((rule) => !used.has(rule)),
    ...words(types)
      .map((to) => `${room} → types of ${to}`)
      .filter((rule) => !used.has(rule)),
  ]);
}

/** Files and packages that are loaded with a file, itself included. */
function reach(graph: ModuleGraph, entry: string, followed: (found: ModuleImport) => boolean): Set<string> {
  const reached = new Set([entry]);
  for (const file of reached) {
    for (const found of graph.get(file) ?? []) if (followed(found)) reached.add(found.target);
  }
  return reached;
}

/** What differs between a reach rule and the packages that are loaded. */
export function reachMistakes(graph: ModuleGraph, { entry, lazy, packages }: ReachRule): string[] {
  if (!graph.has(entry)) return [`${entry} does not exist`];
  const reached = reach(graph, entry, ({ kind }) => kind === 'value' || (lazy && kind === 'lazy'));
  const loaded = [...reached].filter((target) => !graph.has(target));
  return [
    ...loaded.filter((name) => !words(packages).includes(name)).map((name) => `${entry} loads ${name}`),
    ...words(packages)
      .filter((name) => !loaded.includes(name))
      .map((name) => `${entry} does not load ${name}`),
  ];
}

/** A way from each node of a circle back to itself, once for each circle. */
export function circles(arrows: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const found = new Map<string, string>();
  for (const start of arrows.keys()) {
    const way = wayBack(arrows, start);
    const nodes = way?.toSorted().join(' ');
    if (way && nodes && !found.has(nodes)) found.set(nodes, [...way, start].join(' → '));
  }
  return [...found.values()];
}

/** The shortest way from a node back to itself. */
function wayBack(arrows: ReadonlyMap<string, ReadonlySet<string>>, start: string): string[] | undefined {
  const ways = new Map<string, string[]>([[start, [start]]]);
  for (const [node, way] of ways) {
    for (const next of arrows.get(node) ?? []) {
      if (next === start) return way;
      if (!ways.has(next)) ways.set(next, [...way, next]);
    }
  }
  return undefined;
}

/** The picture of the rooms: which room imports which, types included. */
export function roomArrows(graph: ModuleGraph): Map<string, Set<string>> {
  const arrows = new Map([...graph.keys()].map((file) => [roomOf(file), new Set<string>()]));
  for (const { room, to } of crossings(graph)) if (arrows.has(to)) arrows.get(room)?.add(to);
  return arrows;
}

/** The arrows between rooms, but those that follow from others: what a room imports through another one. */
export function arrowsLeft(rules: Record<string, ImportRule>): string[] {
  const roomIn = (name: string): string => (name === 'agent-jobs-client' ? 'starter' : name);
  const targets = new Map(
    Object.entries(rules).map(([room, { values, types, packages }]) => [
      room,
      [values, types, packages].flatMap((text) => words(text).map(roomIn)).filter((name) => name in rules),
    ]),
  );
  const leadsTo = (from: string, to: string): boolean =>
    targets.get(from)!.some((next) => next === to || leadsTo(next, to));
  return [...targets].flatMap(([room, all]) =>
    all.filter((to) => !all.some((other) => other !== to && leadsTo(other, to))).map((to) => `${room} --> ${to}`),
  );
}

/** Which file imports which; types are left out, for a circle of types is none when the code runs. */
export function fileArrows(graph: ModuleGraph): Map<string, Set<string>> {
  return new Map(
    [...graph].map(([file, imports]) => [
      file,
      new Set(imports.filter(({ target, kind }) => kind !== 'type' && graph.has(target)).map(({ target }) => target)),
    ]),
  );
}
