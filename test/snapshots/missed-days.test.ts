/** Which days a nightly run makes up for, and which projects have no nightly runs, as the store shows them. */
import { expect, test } from 'vitest';
import { missedDays, unscheduledProjects } from '../../src/exports/snapshots/catalog.js';
import { checkProject } from '../../src/exports/snapshots/project-marker.js';
import type { SnapshotStore } from '../../src/exports/snapshots/snapshot-store.js';
import { plusDays } from '../../src/exports/date-range.js';
import { exportRows, rows } from './pages.js';
import { changed, useStore } from './test-store.js';

let store: SnapshotStore;
useStore((made) => ({ store } = made));

const NOW = Date.parse('2026-03-10T04:30:00Z');

async function published(...dates: string[]): Promise<void> {
  for (const dateFrom of dates) {
    const range = { projectId: 'p1', dateFrom, dateTo: plusDays(dateFrom, 1) };
    await exportRows(store, () => rows(1), { range, runId: dateFrom });
  }
}

const missed = async () => (await missedDays(store, 'p1', NOW)).map(({ dateFrom }) => dateFrom);

test('days between others of the last weeks are missed, the newest first, and at most seven', async () => {
  await published('2026-02-01', '2026-02-20', '2026-03-05', '2026-03-09');
  const newest = ['2026-03-08', '2026-03-07', '2026-03-06', '2026-03-04', '2026-03-03', '2026-03-02', '2026-03-01'];
  expect(await missed()).toEqual(newest);
});

test('a snapshot of a day that has not begun anywhere, made by mistake, keeps no missed day back', async () => {
  await published('2026-03-07', '2026-03-09', '2062-03-08');
  expect(await missed()).toEqual(['2026-03-08']);
});

test('a store that lists older days too, though it was asked for later ones, has none of them made up', async () => {
  await published('2026-01-01', '2026-03-07', '2026-03-09');
  const all = changed(store, 'list', (real, [folder]) => real(folder));
  expect((await missedDays(all, 'p1', NOW)).map(({ dateFrom }) => dateFrom)).toEqual(['2026-03-08']);
});

test('projects with fresh snapshots and no Schedule are found without a list of the whole store', async () => {
  const asked: string[] = [];
  const counting = changed(store, 'all', (real, args, name) => {
    asked.push([name, ...args].join(' '));
    return real(...args);
  });
  for (const [projectId, dateFrom] of [
    ['forgotten', '2026-03-09'],
    ['given-up', '2026-01-09'],
    ['by mistake', '2062-03-08'],
    ['scheduled', '2026-03-09'],
  ] as const) {
    await checkProject(store, projectId, true);
    const range = { projectId, dateFrom, dateTo: plusDays(dateFrom, 1) };
    await exportRows(store, () => rows(1), { range, runId: dateFrom });
  }
  const found = unscheduledProjects(counting, new Set(['scheduled', 'new']), NOW);
  expect(await found).toEqual(['forgotten']);
  const lists = ['by%20mistake', 'forgotten', 'given-up'].map(
    (id) => `list visitors/projectId=${id} dateFrom=2026-03-07`,
  );
  expect(asked).toEqual(['list projects', 'read projects/projectId=new/project.json', ...lists]);
});
