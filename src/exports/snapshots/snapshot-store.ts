/**
 * What a snapshot store must do, whatever lies behind it. Keys are relative, parts joined by `/`, and never come from
 * outside unencoded.
 */
export interface SnapshotStore {
  /** The store's own URL, without a trailing slash. */
  readonly url: string;
  /** The URL of an object or folder. */
  urlOf(key: string): string;
  /** The whole object; null if there is none. */
  read(key: string): Promise<Buffer | null>;
  /** The object's bytes, piece by piece; throws a SnapshotStoreError if there is none. */
  stream(key: string): AsyncIterable<Uint8Array>;
  /** In bytes; null if there is no such object. */
  size(key: string): Promise<number | null>;
  /**
   * Writes or replaces the object in one step: readers see the old bytes or the new ones, and none of what failed
   * half-way. Errors of the source pass through.
   */
  put(key: string, source: Uint8Array | AsyncIterable<Uint8Array>): Promise<void>;
  /** Keys of all objects below a folder whose next part is `from` or later, in any order: S3 servers differ. */
  list(folder: string, from?: string): AsyncIterable<string>;
  /** Removes an object; none there is fine. */
  remove(key: string): Promise<void>;
  /** Removes all objects below a folder of work in progress. */
  removeFolder(folder: string): Promise<void>;
  /** Gives up unfinished writes of an object outside of staging: never visible, but they cost space. */
  removeUnfinished(key: string): Promise<void>;
}

/** The store failed: a full disk, access denied, no connection. `operation`: `read`, `write`, `list` or `remove`. */
export class SnapshotStoreError extends Error {
  override readonly name = 'SnapshotStoreError';
  readonly operation: string;
  /** The store's own words. */
  readonly error: string;
  constructor(operation: string, key: string, cause: unknown) {
    const error = words(cause);
    super(`Snapshot store: ${operation} ${key}: ${error}`, { cause });
    this.operation = operation;
    this.error = error;
  }
}

function words(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const { name, message, $metadata } = cause as Error & { $metadata?: { httpStatusCode?: number } };
  const status = $metadata?.httpStatusCode;
  // An answer without a body has no words: HEAD has none, and not every server gives one with an error.
  if (/Unknown/.test(message) && status) return `${status === 403 ? 'AccessDenied: ' : ''}the store answered ${status}`;
  // The AWS SDK keeps the code (AccessDenied, NoSuchBucket) in the name.
  return name === 'Error' || message.includes(name) ? message : `${name}: ${message}`;
}

/** Names the failure of one store operation. */
export async function inStore<T>(operation: string, key: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof SnapshotStoreError) throw error;
    throw new SnapshotStoreError(operation, key, error);
  }
}

/** What is read; null if the error says that it is missing. */
export async function orNull<T>(result: Promise<T>, isMissing: (error: unknown) => boolean): Promise<T | null> {
  return result.catch((error: unknown) => {
    if (isMissing(error)) return null;
    throw error;
  });
}

/** Writes what a source gives: an error of the source passes through, one of the store is named. */
export async function writeFrom(
  key: string,
  source: Uint8Array | AsyncIterable<Uint8Array>,
  write: (pieces: AsyncIterable<Uint8Array>) => Promise<void>,
): Promise<void> {
  let failure: { error: unknown } | undefined;
  const pieces = async function* () {
    try {
      if (source instanceof Uint8Array) yield source;
      else yield* source;
    } catch (error) {
      failure = { error };
      throw error;
    }
  };
  try {
    await write(pieces());
  } catch (error) {
    throw failure ? failure.error : new SnapshotStoreError('write', key, error);
  }
}
