import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { buildWithShortHour } from './builds.js';
import { newFolder } from '../support/folder.js';

test('the copy of the product whose hour is short holds no length of an hour of the queue’s any more', async () => {
  const worker = await buildWithShortHour(newFolder(), 60_000);
  const queueFiles = ['request-queue/rolling-window', 'request-queue/budget', 'request-queue/waits'];
  const texts = await Promise.all(queueFiles.map((name) => readFile(join(worker, `../${name}.js`), 'utf8')));
  expect(texts.filter((text) => text.includes('3_600_000'))).toEqual([]);
  expect(texts[0]).toContain('HOUR_MS = 60000;');
});
