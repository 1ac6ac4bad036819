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
    find: '    await markSent(context);\n',
    replace: '    void [markSent, context];\n',
    test: 'test/chaos/strikes.test.ts',
    title: 'killed after the answer',
  },
  {
    name: 'no fence, seen by the audit of the books',
    file: 'src/activities/write-fence.ts',
    find: '    await markSent(context);\n',
    replace: '    void [markSent, context];\n',
    test: 'test/chaos/short.test.ts',
    title: 'no job is made twice and no follow-up lost',
  },
  {
    name: 'fence after the send',
    file: 'src/activities/agent-job.ts',
    find: '    const { id, job } = await send(createFence());\n',
    replace:
      '    const fence = createFence();\n    const { id, job } = await send(async () => () => true);\n    await fence();\n',
    test: 'test/chaos/strikes.test.ts',
    title: 'killed after the answer',
  },
  {
    name: 'fence before the connection',
    file: 'src/activities/agent-job.ts',
    find: '    const { id, job } = await send(createFence());\n',
    replace: '    const inTime = await createFence()();\n    const { id, job } = await send(async () => inTime);\n',
    test: 'test/activities/write-fence.test.ts',
    title: 'is raised once all but the last byte are with the upstream',
  },
  {
    name: 'the last byte sent before the fence is up',
    file: 'src/upstream/paced-body.ts',
    find: '  const mayFinish = await beforeLastByte();\n',
    replace: '  void beforeLastByte();\n  const mayFinish = () => true;\n',
    test: 'test/upstream/write-outcomes.test.ts',
    title: 'waits for whoever must know of it first',
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
    find: 'return () => elapsed() < LATEST_SEND_MS;',
    replace: 'return () => elapsed() >= 0 || LATEST_SEND_MS > 0;',
    test: 'test/chaos/strikes.test.ts',
    title: 'asleep behind the fence until it was given up',
  },
  {
    name: 'a zombie that asks the monotonic clock alone',
    file: 'src/activities/write-fence.ts',
    find: 'return [performance.now(), uptime() * 1_000, Date.now()];',
    replace: 'return [performance.now(), uptime() * 0, Date.now() * 0];',
    test: 'test/chaos/strikes.test.ts',
    title: 'suspended behind the fence, its monotonic clock held',
  },
  {
    name: 'a repeat whose time is counted anew',
    file: 'src/activities/write-fence.ts',
    find: 'const elapsed = (sinceFirstMark ??= startStopwatch());',
    replace: 'const elapsed = (sinceFirstMark = sinceFirstMark ? startStopwatch() : startStopwatch());',
    test: 'test/activities/write-fence.test.ts',
    title: 'for the repeat with a newer key',
  },
  {
    name: 'a troubled write that is closed, not reset',
    file: 'src/upstream/connection.ts',
    find: '    if (this.#isForWrite) resetWhenDestroyed(socket);\n',
    replace: '    void resetWhenDestroyed;\n',
    test: 'test/upstream/resets.test.ts',
    title: 'that is given up while the upstream does not read',
  },
  {
    name: 'a see-other taken for a refusal',
    file: 'src/upstream/outcome.ts',
    find: ' && status !== 303',
    replace: '',
    test: 'test/upstream/write-outcomes.test.ts',
    title: 'a redirect to what it made',
  },
  {
    name: 'another job’s record believed',
    file: 'src/upstream/schema.ts',
    find: '  if (record.id !== jobId) throw',
    replace: "  if (record.id === '' && jobId === '') throw",
    test: 'test/upstream/reads.test.ts',
    title: 'the record of another job',
  },
  {
    name: 'a mark whose answer was lost is not taken back',
    file: 'src/activities/agent-job.ts',
    find: '      takeMarkBack();\n',
    replace: '      void takeMarkBack;\n',
    test: 'test/chaos/strikes.test.ts',
    title: 'cut off from the answer to its fence',
  },
  {
    name: 'a lane that opens for all after ten successes',
    file: 'src/activities/lanes.ts',
    find: 'lane.width += 1;',
    replace: 'lane.width *= 2;',
    test: 'test/unit/lanes.test.ts',
    title: 'lets one more be under way for each success, and for nothing else',
  },
  {
    name: 'a write that waits and is sent as if it were its turn',
    file: 'src/workflows/write.ts',
    find: 'else if (needsTurn(write))',
    replace: 'else if (needsTurn(write) && run.isInFlight)',
    test: 'test/workflows/waiting-writes.test.ts',
    title: 'jobs that wait for a 429 to end hold their prompt in history once for each request',
  },
  {
    name: 'a refused key taken for a refused job',
    file: 'src/activities/write-outcome.ts',
    find: "return { kind: 'unauthorized', reason: error.reason };",
    replace: "return { kind: 'rejected', status: 401, error: error.reason };",
    test: 'test/workflows/keys.test.ts',
    title: 'jobs that were started with a wrong key are created once each when its file is replaced',
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
    name: 'a follow-up’s late start that makes a run of its own',
    file: 'src/starter/re-attach.ts',
    find: 'earlierRunIds: earlier.all,',
    replace: 'earlierRunIds: earlier.all.slice(0, 0),',
    test: 'test/starter/late-starts.test.ts',
    title: 'is answered with the newest run where its start arrives all the same',
  },
  {
    name: 'a key’s late start that makes a run of its own',
    file: 'src/starter/start-job.ts',
    find: 'earlierRunIds: earlier.all,',
    replace: 'earlierRunIds: earlier.all.slice(0, 0),',
    test: 'test/starter/late-starts.test.ts',
    title: 'is answered with the newest run where it arrives all the same',
  },
  {
    name: 'a caller that stood still and goes on',
    file: 'src/starter/start-after.ts',
    find: 'const leftMs = START_WITHIN_MS - basis.elapsedMs();',
    replace: 'const leftMs = START_WITHIN_MS;',
    test: 'test/starter/late-starts.test.ts',
    title: 'makes no run that has forgotten the ids of two others',
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
    find: 'confirmedRun !== activityInfo().workflowExecution?.runId',
    replace: 'confirmedRun === undefined',
    test: 'test/workflows/reset.test.ts',
    title: 'asks again: the decision is repeated, the write is not',
  },
  {
    name: 'a write that a restore may have forgotten sent unasked',
    file: 'src/activities/write-fence.ts',
    find: 'return confirmWritesBefore !== undefined && !(askedAt',
    replace: "return confirmWritesBefore === '' && !(askedAt",
    test: 'test/workflows/restored.test.ts',
    title: 'a create asked for before the time asks a person before it is sent',
  },
  {
    name: 'a person’s word of before a restore still believed',
    file: 'src/activities/write-fence.ts',
    find: 'confirmedTime !== asked.confirmWritesBefore',
    replace: 'confirmedTime === undefined',
    test: 'test/workflows/restored.test.ts',
    title: 'a retry that a person said before the restore counts for nothing after it',
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
    find: "  if (kept.consistent && !found.consistent) return 'keep';\n",
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
    name: 'a prompt that is HTML in the web UI',
    file: 'src/markdown.ts',
    find: '}[<|~$]|',
    replace: '}[|~$]|',
    test: 'test/worker/web-ui.test.ts',
    title: 'acts as nothing in a job’s summary',
  },
];

/** The list as Markdown, for docs/guarantees.md. */
export function mutantTable(): string {
  const rows = MUTANTS.map(({ name, file, test, title }) => [name, `\`${file}\``, `\`${test}\`: ${title}`]);
  return markdownTable(['the product with …', 'changed in', 'is caught by'], rows);
}
