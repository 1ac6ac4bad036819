/** What still ends in the background: `leave-nothing.ts` waits for it at the end of each test file. */
export const ending = new Set<Promise<void>>();
