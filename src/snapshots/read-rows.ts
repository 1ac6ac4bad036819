import { parquetMetadata, parquetRead, type AsyncBuffer, type FileMetaData } from 'hyparquet';

/** Rows of a snapshot by column, as many as one row group of its file holds. */
export interface RowColumns {
  path: string[];
  human: ArrayLike<bigint>;
  ai: ArrayLike<bigint>;
  total: ArrayLike<bigint>;
}

const COLUMNS = ['path', 'human', 'ai', 'total'] as const;
type Column = (typeof COLUMNS)[number];
/** A path may begin with what other texts begin with to tell their encoding. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const parsers = { stringFromBytes: (bytes: Uint8Array | undefined) => bytes && decoder.decode(bytes) };

/** The rows of a Parquet file, one row group in memory at a time. Columns that are not asked for are empty. */
export async function* readRows(
  bytes: Uint8Array,
  columns: readonly Column[] = COLUMNS,
): AsyncGenerator<RowColumns & { length: number }> {
  const file = asyncBuffer(bytes);
  const metadata = parquetMetadata(file.bytes);
  let rowStart = 0;
  for (const group of metadata.row_groups) {
    const rowEnd = rowStart + Number(group.num_rows);
    yield { ...(await readColumns(file, metadata, columns, rowStart, rowEnd)), length: rowEnd - rowStart };
    rowStart = rowEnd;
  }
}

async function readColumns(
  file: AsyncBuffer,
  metadata: FileMetaData,
  columns: readonly Column[],
  rowStart: number,
  rowEnd: number,
): Promise<RowColumns> {
  const found: Record<string, unknown[]> = { path: [], human: [], ai: [], total: [] };
  const onChunk = ({ columnName, columnData }: { columnName: string; columnData: ArrayLike<unknown> }) => {
    const kept = found[columnName];
    // One chunk holds the whole column in most files, ours among them.
    if (kept === undefined || kept.length === 0) found[columnName] = columnData as unknown[];
    else found[columnName] = [...kept, ...Array.from(columnData)];
  };
  await parquetRead({ file, metadata, columns: [...columns], rowStart, rowEnd, onChunk, parsers });
  return found as unknown as RowColumns;
}

function asyncBuffer(bytes: Uint8Array): AsyncBuffer & { bytes: ArrayBuffer } {
  const isWhole = bytes.byteLength === bytes.buffer.byteLength;
  // A small Buffer is a part of Node's pool; its slice would be a view of it.
  const whole = (isWhole ? bytes : new Uint8Array(bytes)).buffer as ArrayBuffer;
  return { bytes: whole, byteLength: whole.byteLength, slice: (start, end) => whole.slice(start, end) };
}
