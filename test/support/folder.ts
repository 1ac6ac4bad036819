/** Folders of a test file: `leave-nothing.ts` removes them at its end. */
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const folders = new Set<string>();

/** Makes an empty one. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'agent-jobs-test-'));
  folders.add(folder);
  return folder;
}

export async function removeFolders(): Promise<void> {
  await Promise.all([...folders].map((folder) => rm(folder, { recursive: true, force: true })));
  folders.clear();
}
