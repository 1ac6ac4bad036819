/** Projects that a disk does not keep apart: it takes `Acme` for `acme`. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { listManifests } from '../../src/exports/snapshots/catalog.js';
import { openStore } from '../../src/exports/snapshots/open-store.js';
import { checkProject } from '../../src/exports/snapshots/project-marker.js';
import type { SnapshotStore } from '../../src/exports/snapshots/snapshot-store.js';

let root: string;
let store: SnapshotStore;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'agent-jobs-marker-'));
  store = await openStore(pathToFileURL(root).href);
});
afterEach(() => rm(root, { recursive: true, force: true }));

/** The store on a disk that ignores case. */
const ignoringCase = (): SnapshotStore =>
  new Proxy(store, {
    get(target, name) {
      const value: unknown = target[name as 'read'];
      if (typeof value !== 'function') return value;
      return (key: unknown, ...more: unknown[]) =>
        Reflect.apply(value, target, [String(key).toLowerCase(), ...more]) as unknown;
    },
  });

test('the second of two projects that share their folders is refused, and its reader too', async () => {
  const disk = ignoringCase();
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
