/**
 * Breaks the product on purpose, one small change at a time in a copy of the repository, and shows that a named test fails for
 * each: `npm run mutants`, or `npm run mutants -- WORD…` for those whose name has one of the words.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

interface Mutant {
  name: string;
  file: string;
  /** Occurs exactly once in the file. */
  find: string;
  replace: string;
  /** The test that must fail, and its title or a part of it. */
  test: string;
  title: string;
}

const MUTANTS: Mutant[] = [
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
    replace: '?.sent === true && confirmed)',
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
];

const root = fileURLToPath(new URL('../../', import.meta.url));
const COPIED = ['src', 'test', 'docs', 'package.json', 'tsconfig.json', 'tsconfig.build.json', 'vitest.config.ts'];
const TEST_LIMIT_MS = 5 * 60_000;

/** Whether a test passes in a copy of the repository, with the mutation or without. */
function passes({ test, title }: { test: string; title: string }, mutant: Mutant | null): boolean {
  const copy = mkdtempSync(join(tmpdir(), 'agent-jobs-mutant-'));
  try {
    for (const path of COPIED) cpSync(join(root, path), join(copy, path), { recursive: true });
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    if (mutant) mutate(copy, mutant);
    // A mutant that does not build would fail every test.
    if (run(copy, ['npm', 'run', 'build', '--silent']).status !== 0) throw new Error(`${mutant?.name}: does not build`);
    const { status, stdout } = run(copy, ['npx', 'vitest', 'run', test, '-t', title, '--maxWorkers=1']);
    // A title that fits nothing would let every mutant live.
    if (!/ (passed|failed)/.test(stdout)) throw new Error(`${test} has no test "${title}"`);
    return status === 0;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

function mutate(copy: string, { name, file, find, replace }: Mutant): void {
  const path = join(copy, file);
  const text = readFileSync(path, 'utf8');
  if (text.split(find).length !== 2) throw new Error(`${name}: ${file} does not hold its text exactly once`);
  writeFileSync(
    path,
    text.replace(find, () => replace),
  );
}

function run(cwd: string, [program = '', ...args]: string[]): { status: number | null; stdout: string } {
  return spawnSync(program, args, { cwd, encoding: 'utf8', timeout: TEST_LIMIT_MS, maxBuffer: 64 * 1024 * 1024 });
}

const words = process.argv.slice(2);
const chosen = MUTANTS.filter(({ name }) => words.length === 0 || words.some((word) => name.includes(word)));
for (const test of new Set(chosen.map((mutant) => mutant.test))) {
  const mutants = chosen.filter((mutant) => mutant.test === test);
  const title = mutants.map((mutant) => mutant.title).join('|');
  if (!passes({ test, title }, null)) throw new Error(`${test} fails without any mutant`);
  for (const mutant of mutants) {
    const verdict = passes(mutant, mutant) ? 'SURVIVED' : 'caught';
    if (verdict === 'SURVIVED') process.exitCode = 1;
    console.log(`${verdict.padEnd(8)}  ${mutant.name}  (${test}: ${mutant.title})`);
  }
}
