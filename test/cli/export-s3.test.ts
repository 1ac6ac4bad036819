import { randomUUID } from 'node:crypto';
import { HeadObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { reportKey } from '../../src/snapshots/layout.js';
import { openStore } from '../../src/snapshots/open-store.js';
import { putDay } from '../report/snapshots.js';
import { startS3Server, type S3Server } from '../support/s3-server.js';
import { jsonLines } from './run-cli.js';
import { runInProcess } from './run-in-process.js';
import { parquetKey } from '../snapshots/published.js';

let s3: S3Server;
beforeAll(async () => {
  s3 = await startS3Server();
}, 300_000);
afterAll(() => s3.stop());

test('snapshots in a bucket are listed, verified and reported like those in a folder', async () => {
  const prefix = randomUUID();
  const url = `s3://${s3.bucket}/${prefix}`;
  const store = await openStore(url, { forcePathStyle: true });
  await putDay(store, 'p', { date: '2026-03-01', rows: [{ path: '/ü', human: 1, ai: 2, total: 3 }] });
  const env = {
    SNAPSHOTS_URL: url,
    S3_FORCE_PATH_STYLE: 'true',
    AWS_ENDPOINT_URL: s3.url,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
  };
  const cli = (...args: string[]) => runInProcess(args, { env });
  expect(jsonLines((await cli('export', 'list', '--json')).stdout)).toMatchObject([{ projectId: 'p', rows: 1 }]);
  expect(await cli('export', 'verify')).toMatchObject({
    code: 0,
    stdout: '1 snapshots verified, 0 with differences\n',
  });
  const report = await cli('report', '--project', 'p');
  expect(report.stdout).toBe(`${url}/${reportKey('p')}\n`);
  const client = new S3Client({ forcePathStyle: true });
  const head = await client.send(new HeadObjectCommand({ Bucket: s3.bucket, Key: `${prefix}/${reportKey('p')}` }));
  client.destroy();
  expect(head.ContentType).toBe('text/html; charset=utf-8');
  await store.remove(await parquetKey(store, { projectId: 'p', dateFrom: '2026-03-01', dateTo: '2026-03-02' }));
  expect(await cli('export', 'verify')).toMatchObject({ code: 1 });
}, 120_000);
