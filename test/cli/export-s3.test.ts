import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { openStore } from '../../src/exports/snapshots/open-store.js';
import { putDay } from '../report/snapshots.js';
import { startOddS3, startS3Server, type S3Server } from '../support/s3-server.js';
import { jsonLines, runCli } from './run-cli.js';
import { runInProcess } from './run-in-process.js';

let s3: S3Server;
beforeAll(async () => {
  s3 = await startS3Server();
});
afterAll(() => s3.stop());
afterEach(() => vi.unstubAllEnvs());

test('a bucket that lists in no order and takes no checksums is listed, verified and swept like others', async () => {
  const odd = await startOddS3(s3.url);
  const checksums = {
    AWS_REQUEST_CHECKSUM_CALCULATION: 'WHEN_REQUIRED',
    AWS_RESPONSE_CHECKSUM_VALIDATION: 'WHEN_REQUIRED',
  };
  for (const [name, value] of Object.entries({ ...checksums, AWS_ENDPOINT_URL: odd.url })) vi.stubEnv(name, value);
  const url = `s3://${s3.bucket}/${randomUUID()}`;
  const store = await openStore(url, { forcePathStyle: true });
  const rows = [{ path: '/', human: 1, ai: 2, total: 3 }];
  for (const date of ['2026-03-01', '2026-03-02', '2026-03-03']) await putDay(store, 'p', { date, rows });
  const leftOver = new Uint8Array(9 << 20);
  for (const name of ['b', 'a', 'c']) await store.put(`staging/visitors/projectId=p/${name}`, leftOver);
  const cli = (...args: string[]) => runInProcess(args, { env: { ...settings(url, odd), ...checksums } });
  const listed = jsonLines((await cli('export', 'verify', '--json')).stdout);
  expect(listed.map(({ dateFrom }) => dateFrom)).toEqual(['2026-03-01', '2026-03-02', '2026-03-03']);
  expect(await cli('export', 'verify')).toMatchObject({
    code: 0,
    stdout: '3 snapshots verified, 0 with differences\n',
    // Nor a warning of the AWS SDK on the age of Node.
    stderr: '',
  });
  await store.removeFolder('staging/visitors/projectId=p');
  for await (const key of store.list('staging')) expect.fail(key);
  await odd.stop();
});

test('a user id without an entry and without HOME, as in a container, reaches the bucket', async () => {
  const noEntry = `import os from 'node:os'; import { syncBuiltinESMExports } from 'node:module';
    os.homedir = () => { throw new Error('uv_os_homedir returned ENOENT'); }; syncBuiltinESMExports();`;
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(noEntry)}`;
  const env = { ...settings(`s3://${s3.bucket}/${randomUUID()}`, s3), NODE_OPTIONS };
  const { stderr } = await runCli(['export', 'verify'], { env, isHomeless: true });
  expect(stderr).toMatch(/no snapshots/i);
});

function settings(url: string, server: { url: string }) {
  return {
    SNAPSHOTS_URL: url,
    S3_FORCE_PATH_STYLE: 'true',
    AWS_ENDPOINT_URL: server.url,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
  };
}
