/** What `reconcile` makes of logs; the restore itself is in test/e2e/disaster-recovery.test.ts. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { QUICK, startJobServer, type JobServer } from '../client/job-server.js';
import { envOf, jsonLines, type CliRun } from './run-cli.js';
import { runInProcess } from './run-in-process.js';

const MOST_MS = 240_000; // a busy machine starts a process slowly

let server: JobServer;
beforeAll(async () => {
  server = await startJobServer();
}, MOST_MS);
afterAll(() => server.close());

const reconcile = (stdin: string, ...flags: string[]): Promise<CliRun> =>
  runInProcess(['reconcile', '-', '--since', '2026-01-15T00:00Z', ...flags], { stdin, env: envOf(server) });

const asLog = (lines: readonly object[]): string => lines.map((line) => JSON.stringify(line)).join('\n');

/** A line as a worker writes it. */
function line(workflowId: string, fields: object): object {
  const { namespace, taskQueue, projectId } = server;
  const ids = { namespace, taskQueue, projectId, workflowId };
  return { level: 'info', time: '2026-02-01T00:00:00.000Z', msg: 'The upstream took a write', ...ids, ...fields };
}

test(
  'a log in which no worker tells of a write is an error, whatever else it holds',
  { timeout: MOST_MS },
  async () => {
    const others = ['not JSON', 'null', '[]', '7', '"text"', '{"msg":"The upstream took a write"}', '\u0000'];
    const typed = { msg: 'The upstream took a write', workflowId: 7, projectId: {}, jobId: [] };
    const { code, stdout, stderr } = await reconcile([...others, JSON.stringify(typed), '{'.repeat(5_000)].join('\n'));
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain('LOG_FORMAT=json');
  },
);

test(
  'each job of a log has one finding; what the log does not prove, or the upstream denies, is left for a person',
  { timeout: MOST_MS },
  async () => {
    const { jobs, projectId, sandbox } = server;
    const request = () => ({ projectId, key: randomUUID(), prompt: `prompt ${randomUUID()}`, ...QUICK });
    const known = await jobs.start(request());
    const { jobId } = await known.result();
    const doubtful = request();
    await sandbox.addFault({ kind: 'status', status: 500, operation: 'create', promptIncludes: doubtful.prompt });
    const asking = await jobs.start(doubtful);
    await expect.poll(async () => (await asking.state()).phase).toBe('needsAttention');
    const id = (name: string) => `agent-job/${name}/${randomUUID()}`;
    const ids = { two: `${id('two')}\u001b[31m`, doubt: id('doubt'), gone: id('__proto__'), refused: id('refused') };
    const log = asLog([
      line(known.workflowId, { write: 'create', jobId }),
      line(known.workflowId, { write: 'followUp', jobId, followUpId: 'sent' }),
      line(asking.workflowId, { write: 'create', jobId: 'of-nobody' }),
      line(ids.two, { write: 'create', jobId: 'one' }),
      line(ids.two, { write: 'create', jobId: 'two' }),
      line(ids.doubt, { msg: 'A write is in doubt: it may or may not have arrived', write: 'create', jobId: null }),
      line(ids.gone, { write: 'create', jobId: 'three' }),
      line(ids.gone, { write: 'followUp', jobId: 'three', followUpId: 'used' }),
      // Of another namespace, and of a time before the backup.
      line(asking.workflowId, { write: 'create', jobId: 'foreign', namespace: 'another' }),
      line(asking.workflowId, { write: 'create', jobId: 'old', time: '2026-01-01T00:00:00.000Z' }),
      line(ids.refused, { msg: 'The job has ended', outcome: 'CreateRejected', jobId: null }),
    ]);
    const expected: Record<string, unknown>[] = [
      { workflowId: asking.workflowId, finding: 'adopt', jobId: 'of-nobody' },
      { workflowId: known.workflowId, finding: 'forgotten', jobId, followUpId: 'sent' },
      { workflowId: ids.doubt, finding: 'inDoubt' },
      { workflowId: ids.gone, finding: 'attach', jobId: 'three' },
      { workflowId: ids.two, finding: 'twoJobs' },
    ];
    const look = await reconcile(log, '--json');
    const byFinding = (lines: Record<string, unknown>[]) =>
      lines.toSorted((a, b) => String(a['finding']).localeCompare(String(b['finding'])));
    expect([look.code, byFinding(jsonLines(look.stdout))]).toMatchObject([13, byFinding(expected)]);
    expect(look.stderr).toContain('6 jobs in the log: 1 known, 2 findings for resolve --from, 3 for a person');

    const { stdout: lines, stderr } = await reconcile(log);
    expect(byFinding(jsonLines(lines))).toMatchObject([
      { workflowId: asking.workflowId, action: 'adopt', since: (await asking.state()).unknown?.since },
      { workflowId: ids.gone, action: 'attach', usedFollowUpIds: ['used'] },
    ]);
    expect(stderr).toContain('forgotten');
    expect(stderr).not.toContain('\u001b');
    const settled = await runInProcess(['resolve', '--from', '-', '--json'], { stdin: lines, env: envOf(server) });
    expect(settled.code).toBe(1);
    expect(jsonLines(settled.stdout)).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          action: 'adopt',
          isSettled: false,
          problem: expect.stringContaining('answered 404'),
        }),
        expect.objectContaining({ action: 'attach', isSettled: true, problem: null }),
      ]),
    );
    expect((await asking.state()).unknown).toMatchObject({ kind: 'create' });
    const attached = jobs.handle(ids.gone);
    expect(await attached.state()).toMatchObject({ jobId: 'three', usedFollowUpIds: ['used'] });
    for (const job of [asking, attached]) await job.cancel();
  },
);
