import { relative, sep } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Folders of the second lane: programs, packages, manifests, Python, and simulations. */
export const SYSTEM = [...['e2e', 'local', 'package', 'chaos', 'deploy', 'monitoring', 'scripts', 'model']];

/**
 * Files that have a process of their own first; then both lanes side by side, the largest files of each first: one
 * mostly waits for programs, the other keeps the machine busy.
 */
export class LanesMixed extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isolated = sorted.filter(({ project }) => project.config.isolate);
    const shared = sorted.filter(({ project }) => !project.config.isolate);
    const lanes = [shared.filter(isSystem), shared.filter((file) => !isSystem(file))];
    const placed = lanes.flatMap((lane) => lane.map((file, index) => ({ file, place: index / lane.length })));
    return [...isolated, ...placed.toSorted((a, b) => a.place - b.place).map(({ file }) => file)];
  }
}

function isSystem({ moduleId, project }: TestSpecification): boolean {
  return SYSTEM.includes(relative(`${project.config.root}/test`, moduleId).split(sep)[0]!);
}
