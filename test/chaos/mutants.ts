/** Changes that break a promise, each with the test that must fail for it: `npm run mutants` shows that it does. */

import { markdownTable } from '../guarantees/markdown-table.js';

export interface Mutant {
  name: string;
  file: string;
  /** Occurs exactly once in the file. */
  find: string;
  replace: string;
  /** The test that must fail, and its title or a part of it. */
  test: string;
  title: string;
}

export const MUTANTS: Mutant[] = [
  {
    name: 'no fence',
    file: 'src/activities/write-fence.ts',
    find: '  await markSent();\n',
    replace: '  void markSent;\n',
    test: 'test/chaos/strikes.test.ts',
    title: 'killed after the answer',
  },
  {
    name: 'no fence, seen by the audit of the books',
    file: 'src/activities/write-fence.ts',
    find: '  await markSent();\n',
    replace: '  void markSent;\n',
    test: 'test/chaos/short.test.ts',
    title: 'no job is made twice and no follow-up lost',
  },
  {
    name: 'fence after the send',
    file: 'src/activities/agent-job.ts',
    find: '  const mayStillSend = await raiseFence();\n  try {\n    const { id, job } = await send(mayStillSend);\n',
    replace: '  try {\n    const { id, job } = await send(() => true);\n    await raiseFence();\n',
    test: 'test/chaos/strikes.test.ts',
    title: 'killed after the answer',
  },
  {
    name: 'a mark that nobody reads',
    file: 'src/activities/write-fence.ts',
    find: '?.sent === true)',
    replace: '?.sent === true && confirmedIn)',
    test: 'test/chaos/strikes.test.ts',
    title: 'killed after the answer',
  },
  {
    name: 'a zombie that does not look at the time',
    file: 'src/activities/write-fence.ts',
    find: 'return () => performance.now() - startedAt < LATEST_SEND_MS;',
    replace: 'return () => startedAt >= 0 || LATEST_SEND_MS > 0;',
    test: 'test/chaos/strikes.test.ts',
    title: 'asleep behind the fence until it was given up',
  },
  {
    name: 'a mark whose answer was lost is not taken back',
    file: 'src/activities/write-fence.ts',
    find: '    Context.current().heartbeat({ sent: false } satisfies Mark);\n',
    replace: '',
    test: 'test/chaos/strikes.test.ts',
    title: 'cut off from the answer to its fence',
  },
  {
    name: 'an update answered early',
    file: 'src/workflows/messages.ts',
    find: "const isAnswered = () => run.followUps.stateOf(id) !== 'queued' ||",
    replace: 'const isAnswered = () => true ||',
    test: 'test/workflows/follow-ups.test.ts',
    title: 'sendFollowUp answers once the upstream took the message',
  },
  {
    name: 'drained after the last check',
    file: 'src/workflows/agent-job.ts',
    find: '    const ending = run.ending();\n',
    replace: '    const ending = run.ending();\n    await condition(() => false, 1);\n',
    test: 'test/workflows/finish-line.test.ts',
    title: 'a follow-up that comes while its job ends',
  },
  {
    name: 'settle ignored',
    file: 'src/workflows/job-run.ts',
    find: 'data.settledAt = this.#now() + this.spec.settleMs;',
    replace: 'data.settledAt = 0;',
    test: 'test/workflows/follow-ups.test.ts',
    title: 'a terminal status that was read before a follow-up was accepted',
  },
  {
    name: 'used ids not carried to the next run',
    file: 'src/workflows/follow-ups.ts',
    find: '    this.#givenIds = new Set(givenIds);\n',
    replace: '    this.#givenIds = new Set(givenIds.slice(0, 0));\n',
    test: 'test/workflows/follow-ups.test.ts',
    title: 'ids that an earlier run used up are not sent again',
  },
  {
    name: 'key compare dropped',
    file: 'src/starter/start-job.ts',
    find: 'const isSame = (await readInputHash(client, run)) === wanted;',
    replace: "const isSame = (await readInputHash(client, run)) === wanted || wanted !== '';",
    test: 'test/starter/start.test.ts',
    title: 'with another input is a conflict',
  },
  {
    name: 'used ids forgotten when attaching anew',
    file: 'src/starter/re-attach.ts',
    find: '{ projectId, jobId, usedFollowUpIds, ...options },',
    replace: '{ projectId, jobId, usedFollowUpIds: usedFollowUpIds.slice(0, 0), ...options },',
    test: 'test/starter/follow-up.test.ts',
    title: 'attaches a run to it that knows the used ids',
  },
  {
    name: 'an id taken twice',
    file: 'src/workflows/follow-ups.ts',
    find: 'return this.#entries.has(id) || this.#givenIds.has(id);',
    replace: "return this.#givenIds.has(id) && id !== '';",
    test: 'test/workflows/follow-ups.test.ts',
    title: 'the same id is sent once, whoever repeats it',
  },
  {
    name: 'a write that a reset handed over is sent without asking',
    file: 'src/activities/write-fence.ts',
    find: 'isFromAnotherRun(asked) || (asked',
    replace: '(asked',
    test: 'test/workflows/reset.test.ts',
    title: 'a write that was in flight at the reset point is not sent again without asking',
  },
  {
    name: 'a person’s word of before a reset taken for the present one',
    file: 'src/activities/write-fence.ts',
    find: 'confirmedIn !== activityInfo().workflowExecution?.runId',
    replace: 'confirmedIn == null',
    test: 'test/workflows/reset.test.ts',
    title: 'asks again: the decision is repeated, the write is not',
  },
  {
    name: 'pages of an export that need not overlap',
    file: 'src/snapshots/pass.ts',
    find: "    if (!isOverlap) this.#drifted('overlap', offset);\n",
    replace: '',
    test: 'test/snapshots/pass.test.ts',
    title: 'a row deleted behind the reader and one added at the end is drift',
  },
  {
    name: 'a snapshot in doubt that replaces a consistent one',
    file: 'src/snapshots/publish.ts',
    find: "  if (kept.consistent && !found.consistent && !isOnlyProvisional) return 'keep';\n",
    replace: '',
    test: 'test/snapshots/publish.test.ts',
    title: 'an inconsistent pass never replaces a consistent snapshot',
  },
  {
    name: 'the manifest published before the parquet',
    file: 'src/snapshots/publish.ts',
    find: '  await store.put(parquetKey(range), source());\n',
    replace:
      '  await store.put(manifestKey(range), encodeManifest(found));\n  await store.put(parquetKey(range), source());\n',
    test: 'test/snapshots/publish.test.ts',
    title: 'a run that dies before the parquet is replaced leaves the snapshot as it was',
  },
  {
    name: 'path hashes that a visitor can choose',
    file: 'src/snapshots/content-digest.ts',
    find: 'sha256(key + path)',
    replace: 'sha256(key.slice(0, 0) + path)',
    test: 'test/snapshots/path-set.test.ts',
    title: 'paths chosen by their unkeyed hashes',
  },
  {
    name: 'totals that contradict the rows, believed',
    file: 'src/snapshots/plausibility.ts',
    find: 'if (isImpossible(found, surroundings.neighbours)) return',
    replace: 'if (isImpossible(found, surroundings.neighbours) && found.rows < 0) return',
    test: 'test/snapshots/belief.test.ts',
    title: 'are inconsistent as impossible, and replace no day that can be',
  },
  {
    name: 'a day that lost most of its rows, believed at once',
    file: 'src/snapshots/plausibility.ts',
    find: 'return hasShrunk(found, surroundings) ?',
    replace: 'return hasShrunk(found, surroundings) && found.rows < 0 ?',
    test: 'test/snapshots/belief.test.ts',
    title: 'an empty 200 over a final day of 20,000 rows replaces nothing',
  },
  {
    name: 'a damaged file called unchanged',
    file: 'src/snapshots/wholeness.ts',
    find: '(await sha256Of(store, key)) !== sha256',
    replace: '(await sha256Of(store, key)).length !== sha256.length',
    test: 'test/snapshots/belief.test.ts',
    title: 'a snapshot with one flipped byte is exported anew',
  },
  {
    name: 'an older pass that replaces a newer snapshot',
    file: 'src/snapshots/publish.ts',
    find: 'if (before && isNewer(before, found)) return keptByNewer',
    replace: 'if (before && isNewer(before, found) && found.rows < 0) return keptByNewer',
    test: 'test/snapshots/belief.test.ts',
    title: 'a pass with rows that began before the published one replaces nothing',
  },
  {
    name: 'a replaced snapshot that is gone',
    file: 'src/snapshots/publish.ts',
    find: 'if (kept && replaces) await keepSuperseded',
    replace: 'if (kept && replaces && kept.rows < 0) await keepSuperseded',
    test: 'test/snapshots/belief.test.ts',
    title: 'and what it replaced is kept',
  },
];

/** The list as Markdown, for docs/guarantees.md. */
export function mutantTable(): string {
  const rows = MUTANTS.map(({ name, file, test, title }) => [name, `\`${file}\``, `\`${test}\`: ${title}`]);
  return markdownTable(['the product with …', 'changed in', 'is caught by'], rows);
}
