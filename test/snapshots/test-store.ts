/** A store in a folder of its own for each test, and the store as processes see it that stall, fail or die. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach } from 'vitest';
import type { SnapshotManifest } from '../../src/contract.js';
import { manifestKey } from '../../src/exports/snapshots/layout.js';
import { openStore } from '../../src/exports/snapshots/open-store.js';
import type { SnapshotStore } from '../../src/exports/snapshots/snapshot-store.js';
import { RANGE } from './pages.js';

/** A new folder, and the store in it. */
export async function makeStore(): Promise<{ root: string; store: SnapshotStore }> {
  const root = await mkdtemp(join(tmpdir(), 'agent-jobs-snapshots-'));
  return { root, store: await openStore(pathToFileURL(root).href) };
}

/** For a test file: `take` gets the store of each test. */
export function useStore(take: (made: { root: string; store: SnapshotStore }) => void): void {
  let root: string;
  beforeEach(async () => {
    const made = await makeStore();
    ({ root } = made);
    take(made);
  });
  afterEach(() => rm(root, { recursive: true, force: true }));
}

/** The manifest that is published, unchecked. */
export async function manifestIn(store: SnapshotStore, range = RANGE): Promise<SnapshotManifest> {
  return JSON.parse(String(await store.read(manifestKey(range)))) as SnapshotManifest;
}

type Operation = (...args: unknown[]) => unknown;
type Which = keyof SnapshotStore | 'all';

/** The store with an operation changed, or all of them. */
export function changed(
  store: SnapshotStore,
  which: Which,
  to: (real: Operation, args: unknown[], name: string) => unknown,
): SnapshotStore {
  return new Proxy(store, {
    get(target, name) {
      const value = target[name as keyof SnapshotStore];
      if (typeof value !== 'function') return value;
      const real = value.bind(target) as Operation;
      return which === 'all' || name === which ? (...args: unknown[]) => to(real, args, String(name)) : real;
    },
  });
}

const isAt = (where: RegExp | string, key: unknown) =>
  typeof where === 'string' ? key === where : where.test(String(key));

/** A process that stalls after one operation on this object, while others go on. */
export function after(
  store: SnapshotStore,
  which: 'put' | 'read',
  where: RegExp | string,
  meanwhile: () => Promise<unknown>,
): SnapshotStore {
  return changed(store, which, async (real, args) => {
    const done = await real(...args);
    if (isAt(where, args[0])) await meanwhile();
    return done;
  });
}

/** A process that dies when it has given all that this object holds: the store has nothing of it. */
export function dyingAt(store: SnapshotStore, where: RegExp | string): SnapshotStore {
  return changed(store, 'put', async (real, [key, source]) => {
    if (!isAt(where, key)) return real(key, source);
    if (!(source instanceof Uint8Array)) for await (const _ of source as AsyncIterable<Uint8Array>);
    throw new Error('died');
  });
}

/** A disk that takes names that differ in case alone for one. */
export function ignoringCase(store: SnapshotStore): SnapshotStore {
  return changed(store, 'all', (real, [key, ...more]) => real(String(key).toLowerCase(), ...more));
}
