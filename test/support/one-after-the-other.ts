import { BaseSequencer, type TestSpecification } from 'vitest/node';

const ORDER = ['isolated', 'system', 'fast'];

/** One project after the other, so that its files share processes; the largest files of each first. */
export class OneAfterTheOther extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.toSorted((a, b) => ORDER.indexOf(a.project.name) - ORDER.indexOf(b.project.name));
  }
}
