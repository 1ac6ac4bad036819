/** What the tests of a file share, such as a server: made before the first one, closed after the last. */
import { afterAll, beforeAll } from 'vitest';

/** What it answers with is empty until the first test begins. */
export function useForFile<T extends { close(): unknown }>(start: () => Promise<T>): T {
  const made = {} as T;
  let close: () => unknown = () => null;
  beforeAll(async () => {
    Object.assign(made, await start());
    close = () => made.close();
  });
  afterAll(() => close());
  return made;
}
