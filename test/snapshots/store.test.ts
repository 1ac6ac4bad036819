import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, open, readdir, rm, type FileHandle } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { openStore } from '../../src/exports/snapshots/open-store.js';
import { SnapshotStoreError, type SnapshotStore } from '../../src/exports/snapshots/snapshot-store.js';
import { finishPublication } from '../../src/exports/snapshots/publish.js';
import { startOddS3, startS3Server, type S3Server } from '../support/s3-server.js';
import { exportRows, RANGE, rows } from './pages.js';
import { changed } from './test-store.js';

let folder: string;
let s3: S3Server;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'agent-jobs-store-'));
  s3 = await startS3Server();
}, 300_000);

afterEach(() => vi.restoreAllMocks());

afterAll(async () => {
  await s3.stop();
  await rm(folder, { recursive: true, force: true });
});

const stores: [string, () => Promise<SnapshotStore>][] = [
  ['file', () => openStore(pathToFileURL(join(folder, randomUUID(), 'with space')).href)],
  ['s3', () => openStore(`s3://${s3.bucket}/${randomUUID()}/nested`, { forcePathStyle: true })],
];

describe.each(stores)('a %s store', (_name, open) => {
  test('gives back what was put, whole and piece by piece, and replaces it', async () => {
    const store = await open();
    const key = 'visitors/projectId=a%2Fb/x.json';
    expect([await store.read(key), await store.size(key)]).toEqual([null, null]);
    await store.put(key, Buffer.from('one'));
    await store.put(key, pieces(['two', '-', 'three']));
    expect((await store.read(key))?.toString()).toBe('two-three');
    expect(await store.size(key)).toBe(9);
    expect(Buffer.concat(await all(store.stream(key))).toString()).toBe('two-three');
  });

  test('shows nothing of a put whose source fails half-way, and passes the failure on', async () => {
    const store = await open();
    await store.put('visitors/a', Buffer.from('old'));
    const broken = async function* () {
      yield Buffer.alloc(9 << 20, 1);
      throw new Error('source broke');
    };
    await expect(store.put('visitors/a', broken())).rejects.toThrow('source broke');
    expect((await store.read('visitors/a'))?.toString()).toBe('old');
    expect(await all(store.list('staging'))).toEqual([]);
  });

  test('takes an object of several parts', async () => {
    const store = await open();
    const big = async function* () {
      for (let i = 0; i < 20; i++) yield Buffer.alloc(1 << 20, i);
    };
    await store.put('visitors/big', big());
    expect(await store.size('visitors/big')).toBe(20 << 20);
  });

  test('lists a folder, and removes one object or all of a folder', async () => {
    const store = await open();
    for (const key of ['staging/w/b', 'staging/w/a/1', 'staging/wx/c']) await store.put(key, Buffer.from(key));
    expect((await all(store.list('staging/w'))).sort()).toEqual(['staging/w/a/1', 'staging/w/b']);
    await store.remove('staging/w/b');
    await store.remove('staging/w/b');
    await store.removeFolder('staging/w');
    await store.removeUnfinished('staging/w');
    expect(await all(store.list('staging'))).toEqual(['staging/wx/c']);
  });
});

test('a file store leaves no empty folder of staging behind', async () => {
  const root = join(folder, randomUUID());
  const store = await openStore(pathToFileURL(root).href);
  await store.put('staging/visitors/p/run/1', Buffer.from('x'));
  await store.put('visitors/p/x', Buffer.from('x'));
  await store.removeFolder('staging/visitors/p');
  expect(await readdir(root)).toEqual(['visitors']);
});

test.each(['EINVAL', 'EIO', 'ENOTSUP'])('a file system that syncs no folder (%s) holds what was put', async (code) => {
  const handle = await open(folder, 'r');
  const handles = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  const sync = Reflect.get(handles, 'sync');
  let [files, folders] = [0, 0];
  vi.spyOn(handles, 'sync').mockImplementation(async function (this: FileHandle) {
    if (!(await this.stat()).isDirectory()) return sync.call(this).then(() => void (files += 1));
    folders += 1;
    throw Object.assign(new Error(`${code}: fsync`), { code });
  });
  const store = await openStore(pathToFileURL(join(folder, randomUUID())).href);
  for (const key of ['visitors/p/a', 'visitors/p/b']) await store.put(key, Buffer.from('x'));
  await store.remove('visitors/p/b');
  vi.restoreAllMocks();
  expect([await all(store.list('visitors')), files]).toEqual([['visitors/p/a'], 2]);
  expect(folders).toBeGreaterThan(2);
});

test('a list of a folder below which another one is removed has all the other files', async () => {
  const root = join(folder, randomUUID());
  const store = await openStore(pathToFileURL(root).href);
  await store.put('visitors/p/day', Buffer.from('x'));
  let isOver = false;
  const removing = (async () => {
    while (!isOver) {
      for (let i = 0; i < 20; i++) await mkdir(join(root, 'visitors', 'old', String(i)), { recursive: true });
      await rm(join(root, 'visitors', 'old'), { recursive: true });
    }
  })();
  const lists = new Set<string>();
  for (let i = 0; i < 500; i++) lists.add((await all(store.list('visitors'))).join());
  isOver = true;
  await removing;
  expect([...lists]).toEqual(['visitors/p/day']);
  expect(await all(store.list('not there'))).toEqual([]);
});

test('of several writers of one file at once none fails, and the file is whole', async () => {
  const store = await openStore(pathToFileURL(join(folder, randomUUID())).href);
  const wholes = Array.from({ length: 6 }, (_, i) => Buffer.alloc(3 << 20, i));
  await Promise.all(wholes.map((whole) => store.put('visitors/a', whole)));
  const found = await store.read('visitors/a');
  expect(wholes.some((whole) => found?.equals(whole))).toBe(true);
  expect(await all(store.list('staging'))).toEqual([]);
});

test('a bucket that does not exist is a store error in the words of the server', async () => {
  const store = await openStore('s3://no-such-bucket/p', { forcePathStyle: true });
  const failure = await store.put('visitors/a', Buffer.from('x')).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(SnapshotStoreError);
  expect(failure).toMatchObject({ operation: 'write', error: expect.stringContaining('NoSuchBucket') });
});

test('a bucket that denies is a store error that says so, with or without words of the server', async () => {
  const prefix = randomUUID();
  const store = await openStore(`s3://${s3.bucket}/${prefix}`, { forcePathStyle: true });
  await store.put('visitors/a', Buffer.from('old'));
  const allow = await s3.deny(['PutObject', 'HeadObject', 'GetObject'], `${prefix}/*`);
  const failures = [
    store.put('visitors/a', Buffer.from('new')),
    store.size('visitors/a'),
    store.read('visitors/a'),
  ].map((work) => work.catch((error: unknown) => error));
  expect(await Promise.all(failures)).toEqual([
    expect.objectContaining({ operation: 'write', error: expect.stringContaining('AccessDenied') }),
    expect.objectContaining({ operation: 'read', error: expect.stringContaining('AccessDenied') }),
    expect.objectContaining({ operation: 'read', error: expect.stringContaining('AccessDenied') }),
  ]);
  await allow();
  expect(String(await store.read('visitors/a'))).toBe('old');
});

test('a server that takes a request and never answers is a store error after three tries', async () => {
  const silent = await startSilent();
  const store = await openStore('s3://bucket/p', { forcePathStyle: true, idleMs: 300 });
  const failure = await store.put('visitors/a', Buffer.from('x')).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(SnapshotStoreError);
  expect(failure).toMatchObject({ operation: 'write', error: expect.stringContaining('300 ms of inactivity') });
  expect(silent.connections()).toBe(3);
  await silent.stop();
});

test('a server that falls silent within an object is a store error', async () => {
  const silent = await startSilent('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf');
  const store = await openStore('s3://bucket/p', { forcePathStyle: true, idleMs: 300 });
  const failures = [store.read('visitors/a'), all(store.stream('visitors/a'))].map((work) =>
    work.catch((error: unknown) => error),
  );
  for (const failure of await Promise.all(failures)) expect(failure).toBeInstanceOf(SnapshotStoreError);
  await silent.stop();
});

test('a page that a proxy answers a write with, which names nothing as stored, is a store error', async () => {
  const body = '<html>Sign in</html>';
  const proxy = await startSilent(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
  for (const source of [Buffer.from('x'), pieces(['x'])]) {
    const store = await openStore('s3://bucket/p', { forcePathStyle: true, idleMs: 2_000 });
    const failure = await store.put('visitors/a', source).catch((error: unknown) => error);
    expect(failure).toMatchObject({ name: 'SnapshotStoreError', operation: 'write' });
    expect((failure as SnapshotStoreError).error).toContain('without an ETag');
  }
  await proxy.stop();
});

test('uploads that killed writers left are given up, also where a list has those of a whole key alone', async () => {
  const odd = await startOddS3(s3.url);
  for (const key of ['AWS_REQUEST_CHECKSUM_CALCULATION', 'AWS_RESPONSE_CHECKSUM_VALIDATION'])
    vi.stubEnv(key, 'WHEN_REQUIRED');
  vi.stubEnv('AWS_ENDPOINT_URL', odd.url);
  const prefix = randomUUID();
  const store = await openStore(`s3://${s3.bucket}/${prefix}`, { forcePathStyle: true });
  vi.unstubAllEnvs();
  const client = new S3Client({ forcePathStyle: true });
  const Bucket = s3.bucket;
  const unfinished = async () => {
    const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket, Prefix: prefix }));
    return Uploads.map(({ Key }) => Key!.split('/')[1]);
  };
  /** The store of a writer that is killed while it uploads this object. */
  const killedAt = (where: RegExp): SnapshotStore =>
    changed(store, 'put', async (real, [key, source]) => {
      if (!where.test(String(key))) return real(key, source);
      await client.send(new CreateMultipartUploadCommand({ Bucket, Key: `${prefix}/${String(key)}` }));
      throw new Error('killed');
    });
  await exportRows(store, () => rows(20));
  for (const folder of ['superseded', 'visitors']) {
    const killed = killedAt(new RegExp(`^${folder}/.*parquet$`));
    await expect(exportRows(killed, () => rows(40), { runId: folder })).rejects.toThrow('killed');
    // The one before was given up as this attempt began.
    expect(await unfinished()).toEqual([folder]);
  }
  await finishPublication(store, RANGE);
  expect(await unfinished()).toEqual([]);
  client.destroy();
  await odd.stop();
});

test.each([
  ['gives them up', true],
  ['answers so, and lists them for ever', false],
])('unfinished uploads on all pages of a list are given up once each, where the server %s', async (_, isTrue) => {
  const left = ['1', '2', '3', '4', '5'];
  const aborted: string[] = [];
  const server = createHttpServer((request, response) => {
    const id = new URL(request.url!, 'http://s3').searchParams.get('uploadId');
    if (id !== null) {
      aborted.push(id);
      if (isTrue) left.splice(left.indexOf(id), 1);
      return response.writeHead(204).end();
    }
    const page = left.slice(0, 2).map((one) => `<Upload><Key>p/a</Key><UploadId>${one}</UploadId></Upload>`);
    const isMore = `<IsTruncated>${left.length > 2}</IsTruncated>`;
    response.end(`<ListMultipartUploadsResult>${isMore}${page.join('')}</ListMultipartUploadsResult>`);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  vi.stubEnv('AWS_ENDPOINT_URL', `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const store = await openStore('s3://bucket/p', { forcePathStyle: true });
  await store.removeUnfinished('a');
  vi.unstubAllEnvs();
  expect(aborted).toEqual(isTrue ? ['1', '2', '3', '4', '5'] : ['1', '2']);
  server.closeAllConnections();
  server.close();
});

test('an object in memory goes into a bucket by one request, of which no killed writer leaves a part', async () => {
  const prefix = randomUUID();
  const store = await openStore(`s3://${s3.bucket}/${prefix}`, { forcePathStyle: true });
  await store.put('staging/rows', Buffer.alloc(20 << 20));
  const client = new S3Client({ forcePathStyle: true });
  const head = await client.send(new HeadObjectCommand({ Bucket: s3.bucket, Key: `${prefix}/staging/rows` }));
  client.destroy();
  // The tag of several parts ends in their number.
  expect(head).toMatchObject({ ContentLength: 20 << 20, ETag: expect.not.stringContaining('-') });
});

/**
 * A server that takes everything and says no more than `words`; the AWS SDK's own settings point at it until it stops.
 */
async function startSilent(words?: string) {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.once('data', () => words !== undefined && socket.write(words));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  vi.stubEnv('AWS_ENDPOINT_URL', `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return {
    connections: () => sockets.length,
    async stop() {
      vi.unstubAllEnvs();
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

async function* pieces(texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of source) found.push(item);
  return found;
}
