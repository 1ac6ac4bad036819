/** The checksum of a manifest, as docs/exports.md explains it to readers in other languages. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SnapshotManifest } from '../../src/contract.js';
import { encodeManifest, FORMAT_VERSION } from '../../src/exports/snapshots/manifest.js';

const run = promisify(execFile);
const DOCS = new URL('../../docs/exports.md', import.meta.url);
const COUNTS = { total: Number.MAX_SAFE_INTEGER, human: 0, ai: 7 };
const MANIFEST: SnapshotManifest = {
  formatVersion: FORMAT_VERSION,
  snapshotId: 'a1',
  projectId: 'ä "日本" \\ / \u2028 \u007f 🙂 \uffee',
  dateFrom: '2026-01-01',
  dateTo: '2026-01-02',
  rows: 1,
  totals: COUNTS,
  consistent: false,
  provisional: true,
  drift: { offset: 249, kind: 'totals' },
  rounded: true,
  exportedAt: '2026-01-02T03:00:00.000Z',
  files: [
    { sha256: '00', name: 'b.parquet', rows: 1, bytes: 2 },
    { name: 'a.parquet', rows: 0, bytes: 2, sha256: '01' },
  ],
  runId: '\b\t\n\f\r\u0000\u001f',
  supersededAt: '2026-02-01T00:00:00.000Z',
};

let folder: string;
let program: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-checksum-'));
  const [section = ''] = (await readFile(DOCS, 'utf8')).split('### The checksum').slice(1);
  program = /```python\n([\s\S]*?)```/.exec(section)![1]!;
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** What the program of the docs says of a manifest. */
async function verdictOf(text: string): Promise<string> {
  const file = join(folder, 'manifest.json');
  await writeFile(file, text);
  return (await run('python3', ['-c', program, file])).stdout.trim();
}

test('the Python program of the docs finds the checksum of any manifest, and what was changed', async () => {
  const more = { ...MANIFEST, 'a field of later': { b: [{ d: 1, c: null }], a: 'x' } };
  for (const manifest of [MANIFEST, more]) {
    const text = String(encodeManifest(manifest));
    expect(await verdictOf(text)).toBe('True');
    expect(await verdictOf(text.replace('"bytes": 2', '"bytes": 3'))).toBe('False');
  }
});
