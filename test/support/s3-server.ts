import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import { cacheFolder } from '../../src/embedded/cache-folder.js';
import { startOwned } from '../../src/embedded/child-process.js';
import { freePort } from '../../src/embedded/free-ports.js';

const run = promisify(execFile);
const PACKAGE = 'moto[s3,server]==5.2.5';
const FOLDER = 'moto-5.2.5';
const START_LIMIT_MS = 60_000;

/** A server of its own that speaks S3 over HTTP, with one bucket; it keeps its objects in memory. */
export interface S3Server {
  url: string;
  bucket: string;
  stop(): Promise<void>;
}

/** Starts a server and points the AWS SDK's own settings at it, for this process. */
export async function startS3Server(): Promise<S3Server> {
  const packages = await fetchMoto();
  const port = await freePort();
  const server = await startOwned({
    program: 'python3',
    args: ['-m', 'moto.server', '-H', '127.0.0.1', '-p', String(port)],
    env: { PYTHONPATH: packages, PATH: process.env['PATH'] },
    logFile: join(tmpdir(), `agent-jobs-s3-${port}.log`),
  });
  const url = `http://127.0.0.1:${port}`;
  Object.assign(process.env, {
    AWS_ENDPOINT_URL: url,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
  });
  await answering(url, server.hasEnded);
  const client = new S3Client({ forcePathStyle: true });
  await client.send(new CreateBucketCommand({ Bucket: 'snapshots' }));
  client.destroy();
  return {
    url,
    bucket: 'snapshots',
    async stop() {
      await server.stop(2_000);
      await rm(join(tmpdir(), `agent-jobs-s3-${port}.log`), { force: true });
    },
  };
}

async function answering(url: string, hasEnded: () => boolean): Promise<void> {
  for (const limit = Date.now() + START_LIMIT_MS; Date.now() < limit && !hasEnded();) {
    const response = await fetch(`${url}/moto-api/`, { headers: { connection: 'close' } }).catch(() => null);
    await response?.body?.cancel();
    if (response) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`The S3 server at ${url} does not answer`);
}

/** The folder of the server's Python packages, fetched through pip once. */
async function fetchMoto(): Promise<string> {
  const programs = join(cacheFolder(process.env), 'programs');
  const target = join(programs, FOLDER);
  if (existsSync(target)) return target;
  await mkdir(programs, { recursive: true });
  const installing = join(programs, `.installing-moto-${randomBytes(6).toString('hex')}`);
  try {
    const args = ['-m', 'pip', 'install', '--no-input', '--quiet', '--target', installing, PACKAGE];
    await run('python3', args, { env: { ...process.env, PIP_USER: '0' }, timeout: 10 * 60_000 });
    await rename(installing, target).catch((error: unknown) => {
      if (!existsSync(target)) throw error; // else another process was faster
    });
  } finally {
    await rm(installing, { recursive: true, force: true });
  }
  return target;
}
