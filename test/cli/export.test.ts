import { randomUUID } from 'node:crypto';
import { appendFile, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type SnapshotManifest, visitorExportScheduleId } from '../../src/contract.js';
import { type DateRange, plusDays } from '../../src/exports/date-range.js';
import { encodeManifest } from '../../src/exports/snapshots/manifest.js';
import { manifestKey, projectFolder, reportKey } from '../../src/exports/snapshots/layout.js';
import { rangeOf, runExport, setUpExport, withWorkers, type ExportSetUp } from '../export/export.js';
import { connectOwnNamespace } from '../support/dev-server.js';
import { envOf, jsonLines, type CliRun } from './run-cli.js';
import { runInProcess } from './run-in-process.js';
import { parquetPath } from '../snapshots/published.js';

let setUp: ExportSetUp;
beforeAll(async () => {
  setUp = await setUpExport(await connectOwnNamespace(), { visitors: { rows: 260 } });
  await withWorkers(setUp, () => runExport(setUp, rangeOf(setUp)));
});
afterAll(async () => {
  await setUp.close();
  await setUp.server.close();
});

function cli(...args: string[]): Promise<CliRun> {
  return runInProcess(args, { env: { ...envOf(setUp.server), SNAPSHOTS_URL: setUp.store.url } });
}

const project = () => ['--project', setUp.projectId];

/** A project of its own with a few days, as the upstream has them. */
async function withDays(dates: [from: string, to: string][]): Promise<ExportSetUp> {
  const own = { ...setUp, projectId: `p-${randomUUID()}` };
  await withWorkers(own, async () => {
    for (const [from, to] of dates) await runExport(own, rangeOf(own, from, to));
  });
  return own;
}

test('run exports a date range, and prints the snapshot on stdout', async () => {
  await withWorkers(setUp, async () => {
    const run = await cli('export', 'run', ...project(), '--day', '2026-02-01');
    expect(run.stdout).toMatch(/Rows +260/);
    expect(run.stdout).toMatch(/Consistent +yes/);
    expect(run.stdout).toMatch(/Totals +human=\d+, ai=\d+, total=\d+/);
    expect(run.code).toBe(0);
    const again = await cli('export', 'run', ...project(), '--day', '2026-02-01', '--json');
    expect(jsonLines(again.stdout)).toMatchObject([{ snapshots: [{ rows: 260, unchanged: true }] }]);
  });
});

test('run reports a rejection by the upstream in its own words, and ends with 1', async () => {
  await setUp.sandbox.addFault({
    kind: 'status',
    status: 400,
    body: '{"error":"no such project"}',
    operation: 'visitors',
  });
  const run = await withWorkers(setUp, () => cli('export', 'run', ...project(), '--day', '2026-02-03'));
  expect(run.stderr).toContain('ExportRejected');
  expect(run.stderr).toContain('no such project');
  expect(run.code).toBe(1);
});

test('a day that can not have begun is not exported by mistake', async () => {
  const today = new Date().toISOString().slice(0, 10);
  const future = plusDays(today, 3);
  for (const dates of [
    ['--day', future],
    ['--from', '2026-02-01', '--to', plusDays(future, 1)],
  ]) {
    for (const name of ['run', 'backfill']) {
      const { code, stdout, stderr } = await cli('export', name, ...project(), ...dates);
      expect([code, stdout]).toEqual([2, '']);
      expect(stderr).toContain('is too late: no time zone is past');
    }
  }
});

test('verify finds nothing wrong where nothing is, and each kind of damage where it is', async () => {
  const dates = ['2026-03-01', '2026-03-02', '2026-03-03', '2026-03-04', '2026-03-05'] as const;
  const own = await withDays(dates.map((date, i) => [date, `2026-03-0${i + 2}`]));
  const verify = () => cli('export', 'verify', '--project', own.projectId, '--json');
  const whole = await verify();
  expect(jsonLines(whole.stdout).map(({ problems }) => problems)).toEqual([[], [], [], [], []]);
  expect(whole.code).toBe(0);
  const range = (i: number) => rangeOf(own, dates[i], `2026-03-0${i + 2}`);
  const at = (i: number, key: typeof manifestKey) => join(own.root, key(range(i)));
  await appendFile(parquetPath(own.root, range(0)), 'x');
  await rm(parquetPath(own.root, range(1)));
  await rm(at(2, manifestKey));
  const manifest = await readFile(at(3, manifestKey), 'utf8');
  await writeFile(at(3, manifestKey), manifest.replace(/"human": \d+/, '"human": 1'));
  const damaged = await verify();
  const problems = jsonLines(damaged.stdout).map((line) => (line['problems'] as string[]).join('; '));
  expect(problems[0]).toContain('bytes');
  expect(problems[0]).toContain('sha256');
  expect(problems[1]).toContain('missing');
  expect(problems[2]).toContain('manifest.json is missing');
  expect(problems[3]).toContain('snapshotId');
  expect(problems[4]).toBe('');
  const stray = `${projectFolder(own.projectId)}/copy.parquet`;
  await writeFile(join(own.root, stray), 'x');
  const named = jsonLines((await verify()).stdout).find(({ file }) => file === stray);
  expect(named).toMatchObject({ problems: [expect.stringContaining('no manifest can name it')] });
  expect(damaged.code).toBe(1);
});

test('a report of a range has its days alone, and a page of its own', async () => {
  const own = await withDays([
    ['2026-03-01', '2026-03-02'],
    ['2026-03-02', '2026-03-03'],
    ['2026-03-03', '2026-03-04'],
  ]);
  const pageOf = async (range?: DateRange) =>
    String(await own.store.read(reportKey(own.projectId, range))).replace(/\s+/g, ' ');
  expect((await cli('report', '--project', own.projectId)).code).toBe(0);
  const nightly = await pageOf();
  expect(nightly).toContain('2026-03-01 to 2026-03-03, 3 days; there is no later snapshot');
  const range = { dateFrom: '2026-03-01', dateTo: '2026-03-03' };
  const made = await cli('report', '--project', own.projectId, '--from', range.dateFrom, '--to', range.dateTo);
  expect(made.stdout).toBe(`${own.store.urlOf(reportKey(own.projectId, range))}\n`);
  expect(await pageOf(range)).toContain('2026-03-01 to 2026-03-02, 2 days<');
  const mistyped = await cli('report', '--project', own.projectId, '--from', '2025-03-01', '--to', '2025-03-03');
  expect(mistyped.code).toBe(1);
  expect(mistyped.stderr).toContain(`no snapshots of single days of project ${own.projectId} in this range`);
  expect(await pageOf()).toBe(nightly);
});

test('gaps names the days that are missing or can not be believed, and ends with 1 where there is one', async () => {
  const own = await withDays([
    ['2026-04-01', '2026-04-02'],
    ['2026-04-03', '2026-04-04'],
    ['2026-04-04', '2026-04-06'],
  ]);
  const run = await cli('export', 'gaps', '--project', own.projectId, '--to', '2026-04-05', '--json');
  expect(jsonLines(run.stdout).map(({ date, state }) => [date, state])).toEqual([
    ['2026-04-02', 'missing'],
    ['2026-04-04', 'missing'],
  ]);
  expect(run.code).toBe(1);
  const none = await cli('export', 'gaps', '--project', own.projectId, '--day', '2026-04-03');
  expect(none.code).toBe(0);
});

test('backfill exports what is missing and nothing else', async () => {
  const own = await withDays([['2026-05-02', '2026-05-03']]);
  const range = ['--project', own.projectId, '--from', '2026-05-01', '--to', '2026-05-04'];
  const run = await withWorkers(own, () => cli('export', 'backfill', ...range));
  expect(run.stdout).toContain('2 days exported, 0 failed');
  expect(run.code).toBe(0);
  expect((await cli('export', 'gaps', ...range)).code).toBe(0);
  const again = await cli('export', 'backfill', ...range);
  expect(again.stdout).toContain('0 days exported');
});

test('backfill says of each day how far it can be believed', async () => {
  const own = await withDays([]);
  const row = { path: '/twice', human: 2, ai: 1, total: 3 };
  const today = new Date().toISOString().slice(0, 10);
  await own.sandbox.setVisitors({ projectId: own.projectId, entries: [row, row], totals: row });
  const words = ['--project', own.projectId, '--day', today];
  const run = await withWorkers(own, () => cli('export', 'backfill', ...words));
  expect(run.stdout).toContain('1 rows, inconsistent: a path came twice (repeatedPath, row 1), provisional');
});

test('backfill goes on over a day that the upstream rejects, under a budget that all exports share', async () => {
  await setUp.sandbox.addFault({ kind: 'status', status: 404, operation: 'visitors' });
  const days = ['--from', '2026-06-01', '--to', '2026-06-03'];
  const run = await withWorkers(setUp, () => cli('export', 'backfill', ...project(), ...days), {
    requestsPerHour: 600,
  });
  expect(run.stderr).toContain('ExportRejected');
  expect(run.stderr).toContain('1 day exported, 1 failed');
  expect(run.code).toBe(1);
});

test('no snapshots, or no folder, is an error: silence could pass for a good answer', async () => {
  const commands = [['export', 'verify'], ['export', 'gaps'], ['report']];
  for (const args of commands) {
    const { code, stderr } = await cli(...args, '--project', 'nobody');
    expect(stderr).toContain(`no snapshots of project nobody in this range at file://`);
    expect(stderr).toContain('`agent-jobs export run` saves a first one');
    expect(code).toBe(1);
  }
  const env = { ...envOf(setUp.server), SNAPSHOTS_URL: 'file:///not/there' };
  const absent = await runInProcess(['export', 'verify'], { env });
  expect([absent.code, absent.stderr]).toEqual([1, expect.stringContaining('no snapshots')]);
});

test('schedule makes, changes and lists; without a subcommand it sets', async () => {
  const own = ['--project', `p-${randomUUID()}`];
  const made = await cli('schedule', ...own, '--time-zone', 'America/Los_Angeles', '--paused');
  expect(made.stdout).toMatch(/^created visitor-export\//);
  const fields = ['Time +4:30', 'Time zone +America/Los_Angeles', 'Days +3', 'Next +paused'];
  for (const field of fields) expect(made.stdout).toMatch(new RegExp(`^${field}$`, 'm'));
  const changed = await cli('schedule', 'set', ...own, '--hour', '2', '--json');
  expect(jsonLines(changed.stdout)).toMatchObject([
    { hour: 2, minute: 0, timeZone: 'America/Los_Angeles', paused: true },
  ]);
  const [, projectId = ''] = own;
  const raw = setUp.server.client.schedule.getHandle(visitorExportScheduleId(projectId));
  await expect.poll(async () => (await cli('schedule', 'list')).stdout).toContain(projectId);
  await raw.delete();
});

test('a day that was read too early to be final is no gap yet: a nightly run may still export it', async () => {
  const today = new Date().toISOString().slice(0, 10);
  const day = plusDays(today, -1);
  const own = await withDays([[day, today]]);
  const key = manifestKey(rangeOf(own, day, today));
  const exported = JSON.parse(String(await own.store.read(key))) as SnapshotManifest;
  const gapsOfManifestReadAt = async (time: string, provisional: boolean) => {
    const manifest = { ...exported, exportedAt: `${today}T${time}:00.000Z`, provisional };
    await own.store.put(key, encodeManifest(manifest));
    return cli('export', 'gaps', '--project', own.projectId);
  };
  const early = await gapsOfManifestReadAt('04:30', true);
  expect([early.code, early.stdout]).toEqual([
    0,
    expect.stringMatching(/provisional, a nightly run may still export it[\s\S]*no gaps/),
  ]);
  const late = await gapsOfManifestReadAt('12:30', false);
  expect([late.code, late.stdout]).toEqual([0, expect.stringMatching(/^\S+: no gaps$/m)]);
  expect(late.stdout).not.toContain('provisional');
});
