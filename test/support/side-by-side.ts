import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Begins with the largest files, and spreads those of one project over those of the other. */
export class SideBySide extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const countOf = (name: string) => sorted.filter(({ project }) => project.name === name).length;
    const seen: Record<string, number> = {};
    const placed = sorted.map((file) => {
      const { name } = file.project;
      seen[name] = (seen[name] ?? 0) + 1;
      return { file, place: seen[name] / countOf(name) };
    });
    return placed.toSorted((a, b) => a.place - b.place).map(({ file }) => file);
  }
}
