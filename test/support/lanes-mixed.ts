import { relative, sep } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Folders of the second lane: programs, packages, manifests, Python, and simulations. */
export const SYSTEM = [...['e2e', 'local', 'package', 'chaos', 'deploy', 'monitoring', 'scripts', 'model']];

/** Small files that take long: at the end, each would keep a whole machine waiting. */
const LONG = ['worker/cut-calls', 'worker/queue-kills', 'e2e/webhooks', 'e2e/killed-poll', 'chaos/short', 'cli/wait'];

/**
 * Files that have a process of their own first; then both lanes side by side, those that take long and the largest
 * files of each first: one mostly waits for programs, the other keeps the machine busy.
 */
export class LanesMixed extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = (await super.sort(files)).toSorted((a, b) => Number(isLong(b)) - Number(isLong(a)));
    const isolated = sorted.filter(({ project }) => project.config.isolate);
    const shared = sorted.filter(({ project }) => !project.config.isolate);
    const lanes = [shared.filter(isSystem), shared.filter((file) => !isSystem(file))];
    const placed = lanes.flatMap((lane) => lane.map((file, index) => ({ file, place: index / lane.length })));
    return [...isolated, ...placed.toSorted((a, b) => a.place - b.place).map(({ file }) => file)];
  }
}

function isLong(file: TestSpecification): boolean {
  return LONG.includes(nameOf(file).join('/'));
}

function isSystem(file: TestSpecification): boolean {
  return SYSTEM.includes(nameOf(file)[0]!);
}

/** Its folders and name below `test`, without the ending. */
function nameOf({ moduleId, project }: TestSpecification): string[] {
  return relative(`${project.config.root}/test`, moduleId)
    .replace(/\.test\.ts$/, '')
    .split(sep);
}
