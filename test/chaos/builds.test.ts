import { mkdtemp, rm, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { buildWithShortHour } from './builds.js';

test('the copy of the product whose hour is short holds no length of an hour of the queue’s any more', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'agent-jobs-test-'));
  try {
    const worker = await buildWithShortHour(folder, 60_000);
    const queueFiles = ['workflows/request-queue/rolling-window', 'workflows/request-queue/budget', 'agent-job/waits'];
    const texts = await Promise.all(queueFiles.map((name) => readFile(join(worker, `../${name}.js`), 'utf8')));
    expect(texts.filter((text) => text.includes('3_600_000'))).toEqual([]);
    expect(texts[0]).toContain("HOUR = new RollingWindow('hour', 60000, 167);");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
