/** The snapshot store in a bucket of S3. */
import { Readable } from 'node:stream';
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  S3Client,
  paginateListObjectsV2,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { inStore, orNull, SnapshotStoreError, writeFrom, type SnapshotStore } from './snapshot-store.js';

const PART_BYTES = 8 << 20; // S3 takes 10,000 parts of 5 MiB or more
/** The SDK gives up a connection that is silent for this time. Three tries fit into an attempt of `readChunk`. */
const IDLE_MS = 15_000;

/** How the server of a bucket is called. */
export interface S3StoreOptions {
  /** For servers that do not take the bucket from the host name. */
  forcePathStyle?: boolean;
  /** How long a connection may be silent within a request, in milliseconds. */
  idleMs?: number;
}

/** Snapshots in a bucket of any server that speaks S3: an object appears when its upload completes. */
export class S3Store implements SnapshotStore {
  readonly url: string;
  readonly #client: S3Client;
  readonly #bucket: string;
  readonly #prefix: string;

  constructor(url: string, { forcePathStyle = false, idleMs = IDLE_MS }: S3StoreOptions = {}) {
    const { hostname, pathname } = new URL(url);
    this.#bucket = hostname;
    const prefix = decodeURIComponent(pathname).replace(/^\/+|\/+$/g, '');
    this.#prefix = prefix && `${prefix}/`;
    this.url = `s3://${this.#bucket}${prefix && `/${prefix}`}`;
    // Credentials, region and endpoint come from the SDK's own settings.
    this.#client = new S3Client({
      forcePathStyle,
      // The SDK's default is to wait for ever, and its requestTimeout only warns.
      requestHandler: { connectionTimeout: 5_000, socketTimeout: idleMs },
    });
  }

  urlOf(key: string): string {
    return `${this.url}/${key}`;
  }

  read(key: string): Promise<Buffer | null> {
    return inStore('read', key, async () => {
      const found = await orNull(this.#client.send(new GetObjectCommand(this.#object(key))), isMissing);
      return found?.Body ? Buffer.from(await found.Body.transformToByteArray()) : null;
    });
  }

  async *stream(key: string): AsyncGenerator<Uint8Array> {
    try {
      const { Body } = await this.#client.send(new GetObjectCommand(this.#object(key)));
      yield* Body as Readable;
    } catch (error) {
      throw new SnapshotStoreError('read', key, error);
    }
  }

  size(key: string): Promise<number | null> {
    return inStore('read', key, async () => {
      const head = await orNull(this.#client.send(new HeadObjectCommand(this.#object(key))), isMissing);
      return head?.ContentLength ?? null;
    });
  }

  async put(key: string, source: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
    await writeFrom(key, source, async (pieces) => {
      const Body = Readable.from(pieces, { objectMode: false });
      const params = { ...this.#object(key), Body, ContentType: contentType(key) };
      // Bytes in memory are one part, so one request: a killed writer leaves no unfinished upload of them.
      const partSize = source instanceof Uint8Array ? Math.max(source.length, PART_BYTES) : PART_BYTES;
      // An error in between aborts the upload, and nothing of it is ever visible.
      assertStored(await new Upload({ client: this.#client, params, partSize, queueSize: 1 }).done());
    });
  }

  async *list(folder: string, from?: string): AsyncGenerator<string> {
    const Prefix = `${this.#prefix}${folder}/`;
    const query = { Bucket: this.#bucket, Prefix, ...(from !== undefined && { StartAfter: Prefix + from }) };
    try {
      for await (const page of paginateListObjectsV2({ client: this.#client }, query)) {
        for (const { Key } of page.Contents ?? []) if (Key) yield Key.slice(this.#prefix.length);
      }
    } catch (error) {
      throw new SnapshotStoreError('list', folder, error);
    }
  }

  remove(key: string): Promise<void> {
    return inStore('remove', key, async () => {
      await this.#client.send(new DeleteObjectCommand(this.#object(key)));
    });
  }

  async removeFolder(folder: string): Promise<void> {
    for await (const key of this.list(folder)) await this.remove(key);
  }

  async removeUnfinished(key: string): Promise<void> {
    const { Bucket, Key: Prefix } = this.#object(key);
    await inStore('remove', key, async () => {
      // A whole key: MinIO lists uploads of no other prefix.
      // Those of a page are gone when the next one is asked for, or some time later.
      const givenUp = new Set<string | undefined>();
      for (let isMore = true; isMore;) {
        const page = await this.#client.send(new ListMultipartUploadsCommand({ Bucket, Prefix }));
        const left = (page.Uploads ?? []).filter(({ UploadId }) => !givenUp.has(UploadId));
        for (const { Key, UploadId } of left) {
          await this.#client.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId }));
          givenUp.add(UploadId);
        }
        isMore = page.IsTruncated === true && left.length > 0;
      }
    });
  }

  #object(key: string): { Bucket: string; Key: string } {
    return { Bucket: this.#bucket, Key: `${this.#prefix}${key}` };
  }
}

/** S3 answers with the ETag of what is stored; a proxy's own page with status 200 has none. */
function assertStored({ ETag }: { ETag?: string | undefined }): void {
  if (!ETag) throw new Error('the store answered 200 without an ETag, so it may have stored nothing');
}

/** Browsers show a page only if the bucket names its type. */
function contentType(key: string): string {
  if (key.endsWith('.html')) return 'text/html; charset=utf-8';
  return key.endsWith('.json') ? 'application/json' : 'application/octet-stream';
}

function isMissing(error: unknown): boolean {
  return ['NoSuchKey', 'NotFound'].includes((error as Error).name);
}
