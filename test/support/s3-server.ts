import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { CreateBucketCommand, DeleteBucketPolicyCommand, PutBucketPolicyCommand, S3Client } from '@aws-sdk/client-s3';
import { freePort, startProcess } from '../../src/local/child-process.js';
import { fetchPythonPackage } from './python-packages.js';

const PACKAGE = 'moto[s3,server]==5.2.5';
const BUCKET = 'snapshots';
const START_LIMIT_MS = 60_000;

/** A server of its own that speaks S3 over HTTP, with one bucket; it keeps its objects in memory. */
export interface S3Server {
  url: string;
  bucket: string;
  /** Makes the bucket deny actions (`PutObject`, …) on keys; what it returns ends that. */
  deny(actions: string[], keys: string): Promise<() => Promise<void>>;
  stop(): Promise<void>;
}

/** Starts a server and points the AWS SDK's own settings at it, for this process. */
export async function startS3Server(): Promise<S3Server> {
  const packages = await fetchPythonPackage(PACKAGE);
  const port = await freePort();
  const server = await startProcess({
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
  await client.send(new CreateBucketCommand({ Bucket: BUCKET }));
  client.destroy();
  return {
    url,
    bucket: BUCKET,
    deny,
    async stop() {
      await server.stop(2_000);
      await rm(join(tmpdir(), `agent-jobs-s3-${port}.log`), { force: true });
    },
  };
}

async function deny(actions: string[], keys: string): Promise<() => Promise<void>> {
  const Action = actions.map((action) => `s3:${action}`);
  const statement = { Effect: 'Deny', Principal: '*', Action, Resource: `arn:aws:s3:::${BUCKET}/${keys}` };
  const Policy = JSON.stringify({ Version: '2012-10-17', Statement: [statement] });
  const client = new S3Client({ forcePathStyle: true });
  await client.send(new PutBucketPolicyCommand({ Bucket: BUCKET, Policy }));
  return async () => {
    await client.send(new DeleteBucketPolicyCommand({ Bucket: BUCKET }));
    client.destroy();
  };
}

/**
 * A front of a server that lists in no order, as some do, takes none of the SDK's checksums, as others do, and lists
 * unfinished uploads only of a prefix that is a whole key, as MinIO does.
 */
export async function startOddS3(url: string): Promise<Pick<S3Server, 'url' | 'stop'>> {
  const server = createServer((incoming, response) => {
    const { method, url: path = '/', headers } = incoming;
    if (Object.keys(headers).some((name) => /^x-amz-(sdk-)?(checksum|trailer)/.test(name))) {
      incoming.resume();
      return response.writeHead(501).end('<Error><Code>NotImplemented</Code></Error>');
    }
    const onward = request(new URL(path, url), { method: method!, headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      const { searchParams } = new URL(path, url);
      const isListOfUploads = method === 'GET' && searchParams.has('uploads');
      if (!isListOfUploads && !searchParams.has('list-type')) return answer.pipe(response);
      const changed = (list: string) =>
        isListOfUploads ? ofWholeKey(list, searchParams.get('prefix') ?? '') : inNoOrder(list);
      return void buffer(answer).then((list) => response.end(changed(String(list))));
    });
    incoming.pipe(onward);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stop = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, stop };
}

/** A list of unfinished uploads without those of other keys. */
function ofWholeKey(list: string, key: string): string {
  return list.replace(/<Upload>[^]*?<\/Upload>/g, (upload) => (upload.includes(`<Key>${key}</Key>`) ? upload : ''));
}

/** A list with every second object first, and backwards. */
function inNoOrder(list: string): string {
  const objects = list.match(/<Contents>[^]*?<\/Contents>/g) ?? [];
  const moved = [1, 0].flatMap((odd) => objects.filter((_, i) => i % 2 === odd)).reverse();
  let next = 0;
  return list.replace(/<Contents>[^]*?<\/Contents>/g, () => moved[next++]!);
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
