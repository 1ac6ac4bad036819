/** Projects that a disk does not keep apart: it takes `Acme` for `acme`. */
import { expect, test } from 'vitest';
import { listManifests } from '../../src/exports/snapshots/catalog.js';
import { projectMarkerKey } from '../../src/exports/snapshots/layout.js';
import { checkProject } from '../../src/exports/snapshots/project-marker.js';
import type { SnapshotStore } from '../../src/exports/snapshots/snapshot-store.js';
import { ignoringCase, useStore } from './test-store.js';

let store: SnapshotStore;
useStore((made) => ({ store } = made));

test('the second of two projects that share their folders is refused, and its reader too', async () => {
  const disk = ignoringCase(store);
  await checkProject(disk, 'Acme', true);
  await checkProject(disk, 'Acme', true);
  const refusal = { name: 'InvalidInputError', field: 'projectId', message: expect.stringContaining('project "Acme"') };
  await expect(checkProject(disk, 'acme', true)).rejects.toMatchObject(refusal);
  await expect(listManifests(disk, 'acme').next()).rejects.toMatchObject(refusal);
});

test('a disk that keeps names apart takes both, and a reader marks nothing', async () => {
  for (const project of ['Acme', 'acme']) await checkProject(store, project, true);
  expect((await listManifests(store, 'other').next()).done).toBe(true);
  const marks: string[] = [];
  for await (const key of store.list('projects')) marks.push(key);
  expect(marks.toSorted()).toEqual(['projects/projectId=Acme/project.json', 'projects/projectId=acme/project.json']);
});

test.each(['', '{"proj', 'null', '{}', '[]'])(
  'a marker that holds %j is made anew, and stops no reader',
  async (text) => {
    await store.put(projectMarkerKey('acme'), Buffer.from(text));
    await checkProject(store, 'acme');
    await checkProject(store, 'acme', true);
    expect(String(await store.read(projectMarkerKey('acme')))).toBe('{"projectId":"acme"}');
  },
);
